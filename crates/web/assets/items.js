// What was said and done, one item below the other: each in its place, under its day, and as it stands now.

import { $, $$, fetchPage, localTimes } from "./shell.js";
import { id, list, soon } from "./conversation.js";
import { countDown } from "./side.js";

const TOGETHER = 5 * 60 * 1000;

// Markup of ours, as nodes.
export function nodes(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  return [...page.body.children];
}

// A message beside one of the same author needs no second head, and one of the same thread no second title.
export function beside(item) {
  const previous = item?.previousElementSibling;
  if (!item?.matches(".message") || !previous?.matches(".message")) return;
  const near = item.dataset.at - previous.dataset.at < TOGETHER;
  const same = previous.dataset.author === item.dataset.author && previous.dataset.thread === item.dataset.thread;
  item.classList.toggle("follows", near && same);
  if (previous.dataset.thread === item.dataset.thread) $(".thread-of", item)?.remove();
}

// A line where the day changes for who reads: the hub's days are those of UTC.
export function divide() {
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
export function place(item) {
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

// One item again, as it stands now. What is being written in it is not thrown away: it is renewed when that is done.
export async function renew(item) {
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
  countDown();
}
