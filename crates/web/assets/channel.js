// A conversation as it goes on: what comes in, what is written, and the keyboard.

import { $, $$, call, elapse, fetchPage, hubNow, isSure, isTyping, localTimes, minutes, openPane, renewRail, toast } from "./shell.js";
import { compose } from "./composer.js";

const main = $("main[data-channel]");
const id = main.dataset.channel;
const thread = main.dataset.thread;
const api = `/api/v1/channels/${id}`;
const stream = $("#stream");
const list = $("#items");
const TOGETHER = 5 * 60 * 1000;
let last = Number(main.dataset.last);
let unseen = 0;

const atEnd = () => stream.scrollHeight - stream.scrollTop - stream.clientHeight < 80;
const toEnd = () => { stream.scrollTop = stream.scrollHeight; };
// Who reads the end stays there, whatever grows: a line of tools that comes in above, the composer below.
let follows = false;
const growth = new ResizeObserver(() => { if (follows) toEnd(); });
growth.observe(stream);
growth.observe(list);

// Markup of ours, as nodes.
function nodes(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  return [...page.body.children];
}

// A message beside one of the same author needs no second head, and one of the same thread no second title.
function beside(item) {
  const previous = item?.previousElementSibling;
  if (!item?.matches(".message") || !previous?.matches(".message")) return;
  const near = item.dataset.at - previous.dataset.at < TOGETHER;
  const same = previous.dataset.author === item.dataset.author && previous.dataset.thread === item.dataset.thread;
  item.classList.toggle("follows", near && same);
  if (previous.dataset.thread === item.dataset.thread) $(".thread-of", item)?.remove();
}

// A line where the day changes for who reads: the hub's days are those of UTC.
function divide() {
  let day = null;
  for (const item of $$(":scope > [data-from]", list)) {
    const at = new Date(Number(item.dataset.at));
    const now = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
    const before = dividerAbove(item);
    if (now === day) before?.remove();
    else if (before?.dataset.day !== now) {
      before?.remove();
      const line = document.createElement("div");
      line.className = "day";
      line.dataset.day = now;
      line.append(document.createElement("time"));
      line.firstChild.dateTime = now;
      const place = item.previousElementSibling?.matches(".new") ? item.previousElementSibling : item;
      place.before(line);
      localTimes(line);
      item.classList.remove("follows");
    }
    day = now;
  }
}
// The divider above an item, if there is one.
function dividerAbove(item) {
  let above = item.previousElementSibling;
  while (above && !above.dataset.from && !above.matches(".day")) above = above.previousElementSibling;
  return above?.matches(".day") ? above : null;
}

// An item in its place: after the one that came before it.
function place(item) {
  const from = Number(item.dataset.from);
  if (item.id && document.getElementById(item.id)) {
    document.getElementById(item.id).replaceWith(item);
  } else {
    const later = $$(":scope > [data-from]", list).find((other) => Number(other.dataset.from) > from);
    if (later) later.before(item);
    else list.append(item);
  }
  beside(item);
  soon("days", divide);
  const of = $(".thread-of a", item);
  const root = of && document.getElementById(item.dataset.thread);
  if (root) of.textContent = $(".text", root)?.textContent.trim().slice(0, 80) ?? of.textContent;
  localTimes(item);
}

function shown(items) {
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

// One item again, as it stands now. What is being written in it is not thrown away: it is renewed when that is done.
async function renew(item) {
  if ($("form", item)) {
    item.dataset.stale = "";
    return;
  }
  const from = Number(item.dataset.from);
  const to = Number(item.dataset.to);
  const page = await fetchPage(`/c/${id}/items?after=${from - 1}&limit=${to - from + 1}`).catch(() => null);
  const fresh = page && $$("[data-from]", page).find((one) => Number(one.dataset.from) === from);
  if (!fresh || !item.isConnected) return;
  if ($("form", item)) {
    item.dataset.stale = "";
    return;
  }
  fresh.classList.toggle("follows", item.classList.contains("follows"));
  fresh.classList.toggle("chosen", item.classList.contains("chosen"));
  if (!$(".thread-of", item)) $(".thread-of", fresh)?.remove();
  if (item.open) fresh.open = true;
  const menu = $(".reactions-menu", item);
  const focused = item.contains(document.activeElement) ? document.activeElement : null;
  item.replaceWith(fresh);
  if (menu) fresh.append(menu);
  if (focused) (fresh.contains(focused) ? focused : fresh).focus({ preventScroll: true });
  localTimes(fresh);
}

// The turn of an agent, from where it began: its lines become what the log says now. Says whether that could be asked.
async function renewWork(author, sequence) {
  const lines = () => $$(".tools", list).filter((one) => one.dataset.author === author);
  const running = lines().filter((one) => one.dataset.running !== undefined).map((one) => Number(one.dataset.from));
  const from = Math.min(sequence, ...running);
  const page = await fetchPage(`/c/${id}/items?after=${from - 1}&limit=200`).catch(() => null);
  if (!page) return false;
  const told = $$("[data-from]", page);
  const end = Math.max(from, ...told.map((one) => Number(one.dataset.to)));
  const fresh = told.filter((one) => one.matches(".tools") && one.dataset.author === author);
  for (const old of lines().filter((one) => Number(one.dataset.from) >= from && Number(one.dataset.from) <= end)) {
    const again = fresh.find((one) => one.dataset.from === old.dataset.from);
    const next = old.nextElementSibling;
    if (again) {
      again.open = old.open || again.open;
      old.replaceWith(again);
      localTimes(again);
    } else {
      old.remove();
      beside(next);
    }
  }
  for (const one of fresh) if (!list.contains(one)) place(one);
  elapse(list);
  return true;
}

// One asks at a time for each agent, and again if something came meanwhile: answers that overtake each other would leave
// lines behind that never end.
const turns = new Map();
async function work(author, sequence) {
  const turn = turns.get(author);
  if (turn) {
    turn.again = true;
    return;
  }
  const mine = { again: true };
  turns.set(author, mine);
  for (let tries = 0; mine.again && tries < 50; tries += 1) {
    await pause(60);
    mine.again = false;
    if (!await renewWork(author, sequence)) {
      mine.again = true;
      await pause(1000);
    }
  }
  turns.delete(author);
  const now = atWork();
  if (now !== working) soon("side", renewSide, 300);
  working = now;
}
// Who is at work, by what is shown.
const atWork = () => $$(".tools[data-running]", list).map((one) => one.dataset.author).sort().join(" ");
let working = atWork();
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

const waiting = new Map();
function soon(key, work, ms = 60) {
  clearTimeout(waiting.get(key));
  waiting.set(key, setTimeout(() => { waiting.delete(key); work(); }, ms));
}

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
  events = new EventSource(`/c/${id}/live?after=${last}`);
  let lastAt = new Date();
  events.addEventListener("open", () => {
    live.classList.remove("lost");
    live.textContent = "Live";
    // What was told while nobody listened is asked for.
    if (missed || !lost.hidden) soon("waiting", renewWaiting);
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
    last = Math.max(last, Number(event.lastEventId));
  };
  events.addEventListener("item", (event) => {
    seen(event);
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
    const running = $$(".tools[data-running]", list).some((one) => one.dataset.author === author);
    if (author && (running || turns.has(author))) work(author, last);
    if (["join", "leave", "artifact"].includes(data.kind)) soon("side", renewSide, 300);
    shown(items);
  });
  events.addEventListener("touch", (event) => {
    seen(event);
    const data = JSON.parse(event.data);
    // What an agent does has a target too: the message it is about.
    if (["reaction", "edit", "delete"].includes(data.kind)) {
      const item = document.getElementById(data.target);
      if (item) soon(data.target, () => renew(item));
    } else if (!thread) {
      work(data.author, last);
    }
  });
  events.addEventListener("typing", (event) => typing(JSON.parse(event.data).handle));
  events.addEventListener("growing", (event) => grows(JSON.parse(event.data)));
  events.addEventListener("ephemeral", (event) => passes(JSON.parse(event.data)));
  events.addEventListener("approvals", () => soon("waiting", renewWaiting));
}

// Members and documents, when they change and nobody reads why; and how many are at work.
async function renewSide() {
  const tab = $(".tabs a[aria-current]");
  const isWhy = !tab || tab.getAttribute("href") === "#side";
  const page = await fetchPage(isWhy ? `/c/${id}` : tab.href).catch(() => null);
  if (!page) return;
  $("#working").replaceWith($("#working", page));
  if (!isWhy && !$("#side").contains(document.activeElement)) {
    $("#side").replaceChildren(...$("#side", page).childNodes);
    localTimes($("#side"));
  }
  renewRail();
}

// What waits until somebody agrees. Whoever writes why not is left alone; what is decided meanwhile says so itself.
async function renewWaiting() {
  const cards = $("#waiting");
  if (cards.contains(document.activeElement) && document.activeElement.matches("input")) return;
  const page = await fetchPage(`/c/${id}/waiting`).catch(() => null);
  if (!page) return;
  cards.replaceChildren(...page.body.childNodes);
  cards.hidden = cards.children.length === 0;
  localTimes(cards);
}

// An answer that is being made, at the end until the message itself takes its place.
function grows({ event_id: event, content, handle }) {
  let item = document.getElementById(`grows-${event}`);
  if (!content) { item?.remove(); return; }
  if (!item && document.getElementById(event)) return;
  if (!item) {
    item = document.createElement("div");
    item.id = `grows-${event}`;
    item.className = "growing";
    item.append(document.createElement("strong"), document.createElement("p"));
    item.firstChild.textContent = handle;
    stream.append(item);
  }
  item.lastChild.textContent = content;
  if (follows) toEnd();
}

// What is only for who looks now: it is in no history, and gone when the page is.
function passes({ author, content, thread: of }) {
  if (thread && of !== thread) return;
  const item = document.createElement("div");
  item.className = "growing";
  item.append(document.createElement("strong"), document.createElement("p"));
  item.firstChild.textContent = `${author.handle}, only now`;
  item.lastChild.textContent = content;
  stream.append(item);
  if (follows) toEnd();
}

const typists = new Map();
function typing(handle) {
  if (handle === main.dataset.me) return;
  clearTimeout(typists.get(handle));
  typists.set(handle, setTimeout(() => { typists.delete(handle); tellTyping(); }, 5000));
  tellTyping();
}
function tellTyping() {
  const place = $("#typing");
  const who = [...typists.keys()];
  if (place) place.textContent = who.length ? `${who.slice(0, 3).join(", ")} ${who.length > 1 ? "are" : "is"} typing` : "";
}

// What is on the screen was read.
let readUpTo = 0;
function read() {
  if (document.hidden || last <= readUpTo || thread) return;
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
document.addEventListener("visibilitychange", () => {
  if (document.hidden) leave();
  else if (isLive) follow();
  if (!document.hidden && atEnd()) read();
});

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

// Reactions, edits, taking back.
function react(item, signal, removed) {
  return call("POST", `${api}/messages/${item.id}/reactions`, { signal, removed }).catch((error) => toast(error.message));
}
function chooseReaction(item) {
  $(".reactions-menu")?.remove();
  const menu = document.createElement("div");
  menu.className = "reactions-menu";
  menu.setAttribute("role", "group");
  menu.setAttribute("aria-label", "React");
  menu.append($("#signals").content.cloneNode(true));
  item.append(menu);
  // Where there is no room below, it stands above.
  const room = stream.getBoundingClientRect().bottom;
  menu.classList.toggle("above", menu.getBoundingClientRect().bottom > room);
  menu.scrollIntoView({ block: "nearest" });
  $("button", menu).focus({ preventScroll: true });
}
list.addEventListener("keydown", (event) => {
  const menu = event.target.closest(".reactions-menu");
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!menu || !step) return;
  event.preventDefault();
  const all = $$("button", menu);
  all[(all.indexOf(event.target) + step + all.length) % all.length].focus();
});
function edit(item) {
  const text = $(".text", item);
  const form = document.createElement("form");
  form.className = "fields";
  const field = document.createElement("textarea");
  field.value = item.dataset.source;
  field.rows = 3;
  field.setAttribute("aria-label", "What it says instead");
  const save = document.createElement("button");
  save.className = "main";
  save.textContent = "Save";
  form.append(field, save);
  text.hidden = true;
  text.after(form);
  field.focus();
  const end = () => {
    form.remove();
    text.hidden = false;
    item.focus({ preventScroll: true });
    if (item.dataset.stale !== undefined) renew(item);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); end(); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call("PATCH", `${api}/messages/${item.id}`, { content: field.value }).then(end, (error) => toast(error.message));
  });
}
function takeBack(item, button) {
  if (isSure(button, "Take back?")) call("DELETE", `${api}/messages/${item.id}`).catch((error) => toast(error.message));
}
function takeOn(item) {
  const mine = $("[data-react=claimed][data-mine]", item) !== null;
  return react(item, "claimed", mine);
}
list.addEventListener("click", (event) => {
  const item = event.target.closest(".item");
  const signal = event.target.closest("[data-react]");
  if (item && signal) {
    react(item, signal.dataset.react, signal.dataset.mine !== undefined);
    $(".reactions-menu")?.remove();
    return;
  }
  const act = event.target.closest("button[data-act]");
  if (item && act) {
    if (act.dataset.act === "react") chooseReaction(item);
    if (act.dataset.act === "claim") takeOn(item);
    if (act.dataset.act === "edit" && !$("form", item)) edit(item);
    if (act.dataset.act === "delete") takeBack(item, act);
  } else if (!event.target.closest(".reactions-menu")) {
    $(".reactions-menu")?.remove();
  }
});

// Claims run out by the hub's clock.
setInterval(() => {
  for (const chip of $$("[data-until]", list)) {
    const left = Math.round((Number(chip.dataset.until) - hubNow()) / 1000);
    chip.classList.toggle("warn", left < 60);
    chip.classList.toggle("work", left >= 60);
    if (left > 0) $(".countdown", chip).textContent = minutes(left);
    else {
      chip.removeAttribute("data-until");
      chip.className = "chip";
      chip.textContent = "free to claim";
    }
  }
}, 1000);

// The keyboard: one message is chosen.
const chosen = () => $(".item.chosen", list);
function choose(item) {
  chosen()?.classList.remove("chosen");
  item?.classList.add("chosen");
  item?.focus({ preventScroll: true });
  item?.scrollIntoView({ block: "nearest" });
}
// One step back: from the menu to its message, from why to the members, from a message to none.
function back() {
  const menu = $(".reactions-menu");
  const members = $(".tabs a[href='#side']") && $(".tabs a[data-pane]");
  if (menu) {
    const item = menu.parentElement;
    menu.remove();
    item.focus({ preventScroll: true });
  } else if (members) openPane(members.href).then(() => $("#side").classList.remove("open"));
  else choose(null);
}
document.addEventListener("keydown", (event) => {
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = $$(".item", list);
  const at = all.indexOf(chosen());
  if (event.key === "j") choose(all[Math.min(at + 1, all.length - 1)] ?? all.at(-1));
  if (event.key === "k") choose(all[at < 0 ? all.length - 1 : Math.max(at - 1, 0)]);
  const item = chosen();
  if (event.key === "e" && item) { event.preventDefault(); chooseReaction(item); }
  if (event.key === "c" && item) takeOn(item);
  if (event.key === "r") {
    event.preventDefault();
    if (item) location.assign($("a[data-act=reply]", item).href);
    else $("#content")?.focus();
  }
  if (event.key === "w" && item) openPane($("a[data-act=why]", item).href);
  if (event.key === "Escape") back();
});

const composer = $("#composer");
if (composer) compose(composer, main, () => { justSent = true; });

const target = location.hash && document.getElementById(location.hash.slice(1));
const why = /\/why\/(evt_\w+)/.exec(location.pathname);
divide();
if (target) target.scrollIntoView({ block: "center" });
else if (why) choose(document.getElementById(why[1]));
else if ($("#new")) $("#new").scrollIntoView({ block: "center" });
else toEnd();
follows = atEnd();
if (why) $("#side").classList.add("open");
const isLive = main.dataset.past === undefined;
if (isLive) {
  follow();
  if (follows) read();
}
