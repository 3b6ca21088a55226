// A conversation as it goes on: what comes in by its stream, and where it belongs.

import { $ } from "./shell.js";
import { compose } from "./composer.js";
import { id, main, soon, thread } from "./conversation.js";
import { nodes, place, renew } from "./items.js";
import { boardSoon, countDown, renewSide, renewWaiting } from "./side.js";
import { isAtWork, work } from "./turns.js";
import { begin, lastSeen, read, saw, sends, shown } from "./reading.js";
import { grows, passes, typing } from "./passing.js";
import { choose } from "./acts.js";

// A page that nobody sees lets go of its stream: browsers have few connections to one hub. What it missed comes when it is seen.
let events = null;
let missed = false;
function leave() {
  missed ||= events !== null;
  events?.close();
  events = null;
}
function follow() {
  const live = $("#live");
  const lost = $("#lost");
  live.hidden = false;
  leave();
  if (document.hidden) return;
  events = new EventSource(`/c/${id}/live?after=${lastSeen()}`);
  let lastAt = new Date();
  events.addEventListener("open", () => {
    live.classList.remove("lost");
    live.textContent = "Live";
    // What was told while nobody listened is asked for.
    if (missed || !lost.hidden) {
      soon("waiting", renewWaiting);
      boardSoon();
    }
    missed = false;
    lost.hidden = true;
  });
  events.addEventListener("error", () => {
    live.classList.add("lost");
    live.textContent = "Reconnecting";
    lost.hidden = false;
    lost.textContent = `Reconnecting, last event ${lastAt.toLocaleTimeString()}`;
    if (events?.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  });
  const seen = (event) => {
    lastAt = new Date();
    saw(Number(event.lastEventId));
  };
  events.addEventListener("item", (event) => {
    seen(event);
    boardSoon();
    const data = JSON.parse(event.data);
    if (data.thread) {
      const root = document.getElementById(data.thread);
      if (root && root.dataset.from) soon(data.thread, () => renew(root));
    }
    if (thread && data.thread !== thread) return;
    const items = nodes(data.html).filter((node) => node.dataset.from);
    items.forEach((item) => document.getElementById(`grows-${item.id}`)?.remove());
    const author = items[0]?.dataset.author;
    items.forEach(place);
    if (author && isAtWork(author)) work(author, lastSeen());
    if (["join", "leave", "artifact"].includes(data.kind)) soon("side", renewSide, 300);
    shown(items);
  });
  events.addEventListener("touch", (event) => {
    seen(event);
    boardSoon();
    const data = JSON.parse(event.data);
    // What an agent does has a target too: the message it is about.
    if (["reaction", "edit", "delete"].includes(data.kind)) {
      const item = document.getElementById(data.target);
      if (item) soon(data.target, () => renew(item));
    } else if (!thread) {
      work(data.author, lastSeen());
    }
  });
  events.addEventListener("typing", (event) => typing(JSON.parse(event.data).handle));
  events.addEventListener("growing", (event) => grows(JSON.parse(event.data)));
  events.addEventListener("ephemeral", (event) => passes(JSON.parse(event.data)));
  events.addEventListener("approvals", () => {
    soon("waiting", renewWaiting);
    boardSoon();
  });
  // It may be told before the message itself came.
  events.addEventListener("attention", (event) => {
    const message = JSON.parse(event.data).event_id;
    soon(message, () => {
      const item = document.getElementById(message);
      if (item?.dataset.from) renew(item);
    }, 300);
    boardSoon();
  });
}

countDown();
const composer = $("#composer");
if (composer) compose(composer, main, sends);

const why = /\/why\/(evt_\w+)/.exec(location.pathname);
const asked = why && document.getElementById(why[1]);
begin(location.hash && document.getElementById(location.hash.slice(1)) || asked || $("#new"));
if (asked) choose(asked);
if (why) $("#side").classList.add("open");
const isLive = main.dataset.past === undefined;
if (isLive) {
  follow();
  read();
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) leave();
  else if (isLive) follow();
  if (!document.hidden) read();
});
