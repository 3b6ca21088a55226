// What stands beside the stream and changes with it: members, documents, how many are at work, and what waits for leave.

import { $, fetchPage, localTimes, renewRail } from "./shell.js";
import { id } from "./conversation.js";

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
