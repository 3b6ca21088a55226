// What somebody does with a message: reactions, edits, taking it on or back; by the pointer and by the keyboard.

import { $, $$, call, isSure, isTyping, openPane, toast } from "./shell.js";
import { id, list, stream } from "./conversation.js";
import { renew } from "./items.js";

const api = `/api/v1/channels/${id}`;

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
  const mine = $(".chip[data-held][data-until]", item) !== null;
  return react(item, "claimed", mine);
}
function stopWork(item, button) {
  if (!isSure(button, "Stop it?")) return;
  const said = ({ stopped }) => toast(stopped.length ? `Stopped ${[...new Set(stopped.map((one) => one.agent))].join(", ")}` : "No work to stop here");
  call("POST", `${api}/messages/${item.id}/stop`).then(said, (error) => toast(error.message));
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
    if (act.dataset.act === "stop") stopWork(item, act);
    if (act.dataset.act === "edit" && !$("form", item)) edit(item);
    if (act.dataset.act === "delete") takeBack(item, act);
  } else if (!event.target.closest(".reactions-menu")) {
    $(".reactions-menu")?.remove();
  }
});

// The keyboard: one message is chosen.
const chosen = () => $(".item.chosen", list);
export function choose(item) {
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
