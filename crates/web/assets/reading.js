// Where somebody reads: who is at the end stays there, who is further up is not moved; what was on the screen was read.

import { $, localTimes, toast } from "./shell.js";
import { id, list, main, soon, stream, thread } from "./conversation.js";
import { divide, nodes } from "./items.js";

let last = Number(main.dataset.last);
let unseen = 0;

// The last event that the page knows, and that it knows another.
export const lastSeen = () => last;
export const saw = (sequence) => { last = Math.max(last, sequence); };

const atEnd = () => stream.scrollHeight - stream.scrollTop - stream.clientHeight < 80;
const toEnd = () => { stream.scrollTop = stream.scrollHeight; };
// Who reads the end stays there, whatever grows: a line of tools that comes in above, the composer below.
let follows = false;
export const keepUp = () => { if (follows) toEnd(); };
const growth = new ResizeObserver(keepUp);
growth.observe(stream);
growth.observe(list);

export function shown(items) {
  $("#nothing")?.remove();
  const mine = items.some((item) => item.dataset.source !== undefined);
  if (mine && justSent) justSent = false;
  else if (!follows) {
    unseen += items.length;
    const pill = $("#pill");
    pill.hidden = unseen === 0;
    pill.textContent = `${unseen} new`;
    return;
  }
  follows = true;
  toEnd();
  read();
}
// What one sends oneself is looked at.
let justSent = false;
export const sends = () => { justSent = true; };

// What is on the screen was read.
let readUpTo = 0;
export function read() {
  if (document.hidden || last <= readUpTo || thread || !atEnd()) return;
  readUpTo = last;
  soon("read", () => fetch(`/c/${id}/read`, { method: "POST", body: new URLSearchParams({ seq: String(readUpTo) }) }));
}
stream.addEventListener("scroll", () => {
  follows = atEnd();
  if (follows) {
    unseen = 0;
    $("#pill").hidden = true;
    read();
  }
});
$("#pill").addEventListener("click", toEnd);

// Earlier, without losing one's place.
stream.addEventListener("click", async (event) => {
  const link = event.target.closest("#earlier");
  if (!link) return;
  event.preventDefault();
  const query = new URLSearchParams({ before: link.dataset.before });
  if (thread) query.set("thread", thread);
  const answer = await fetch(`/c/${id}/items?${query}`);
  if (!answer.ok) return toast("What is earlier could not be fetched");
  const height = stream.scrollHeight;
  const top = stream.scrollTop;
  const items = nodes(await answer.text());
  list.prepend(...items);
  localTimes(list);
  divide();
  stream.scrollTop = top + stream.scrollHeight - height;
  const next = answer.headers.get("x-next");
  if (next) link.dataset.before = next;
  else link.parentElement.remove();
  return undefined;
});

// The page begins at the end, or where somebody wants to be.
export function begin(target) {
  divide();
  if (target) target.scrollIntoView({ block: "center" });
  else toEnd();
  follows = atEnd();
}
