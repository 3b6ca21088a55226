// What stands beside the stream and changes with it: members, the board, documents, how many are at work, and what waits for leave.

import { $, $$, fetchPage, hubNow, localTimes, minutes, renewRail } from "./shell.js";
import { id, main } from "./conversation.js";

// Where there is room the side can be folded away, and stays so; whoever asks why sees it all the same.
const wide = matchMedia("(min-width: 1200px)");
main.classList.toggle("folded", localStorage.getItem("side") === "folded");
$(".side-toggle").addEventListener("click", (event) => {
  if (!wide.matches) return;
  event.stopPropagation();
  const side = $("#side");
  const isShown = side.getClientRects().length > 0;
  main.classList.toggle("folded", isShown);
  side.classList.remove("open");
  localStorage.setItem("side", isShown ? "folded" : "open");
});

// Members and documents, when they change and nobody reads why; and how many are at work.
export async function renewSide() {
  const tab = $(".tabs a[aria-current]");
  const isWhy = !tab || tab.getAttribute("href") === "#side";
  const page = await fetchPage(isWhy ? `/c/${id}` : tab.href).catch(() => null);
  if (!page) return;
  $("#working").replaceWith($("#working", page));
  if (!isWhy && !$("#side").contains(document.activeElement)) {
    $("#side").replaceChildren(...$("#side", page).childNodes);
    localTimes($("#side"));
  }
  countDown();
  boardSoon();
  renewRail();
}

// What waits until somebody agrees. Whoever writes why not is left alone; what is decided meanwhile says so itself.
export async function renewWaiting() {
  const cards = $("#waiting");
  if (cards.contains(document.activeElement) && document.activeElement.matches("input")) return;
  const page = await fetchPage(`/c/${id}/waiting`).catch(() => null);
  if (!page) return;
  cards.replaceChildren(...page.body.childNodes);
  cards.hidden = cards.children.length === 0;
  localTimes(cards);
}

// What is open here: as often as once a second, however much happens.
let isDue = false;
export function boardSoon() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => { isDue = false; renewBoard(); }, 1000);
}
async function renewBoard() {
  const page = await fetchPage(`/c/${id}/board`).catch(() => null);
  const fresh = page && $("#board", page);
  if (!fresh) return;
  $("[data-board] span").textContent = fresh.dataset.open;
  $("#blocked").hidden = fresh.dataset.blocked === "0";
  $("#blocked span").textContent = fresh.dataset.blocked;
  const board = $("#board");
  if (!board || board.contains(document.activeElement)) return;
  for (const group of $$("details", fresh)) {
    const before = $(`[data-group=${group.dataset.group}]`, board);
    if (before) group.open = before.open;
  }
  board.replaceWith(fresh);
  localTimes(fresh);
  countDown();
}

// Claims and deadlines run out by the hub's clock.
export function countDown() {
  for (const chip of $$("[data-until]", main)) {
    const left = Math.round((Number(chip.dataset.until) - hubNow()) / 1000);
    const isPressing = left < 60 || chip.dataset.over !== undefined;
    chip.classList.toggle("warn", isPressing);
    chip.classList.toggle("work", !isPressing);
    if (left > 0) $(".countdown", chip).textContent = minutes(left);
    else {
      chip.textContent = chip.dataset.over ?? "free to claim";
      chip.removeAttribute("data-until");
      chip.classList.remove("work", "mine");
      boardSoon();
    }
  }
}
setInterval(countDown, 1000);
