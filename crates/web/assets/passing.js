// What passes by and is in no log: answers that are being made, what is said to whoever looks now, and who is typing.

import { $ } from "./shell.js";
import { main, stream, thread } from "./conversation.js";
import { keepUp } from "./reading.js";

// An answer that is being made, at the end until the message itself takes its place.
export function grows({ event_id: event, content, handle }) {
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
  keepUp();
}

// What is only for who looks now: it is in no history, and gone when the page is.
export function passes({ author, content, thread: of }) {
  if (thread && of !== thread) return;
  const item = document.createElement("div");
  item.className = "growing";
  item.append(document.createElement("strong"), document.createElement("p"));
  item.firstChild.textContent = `${author.handle}, only now`;
  item.lastChild.textContent = content;
  stream.append(item);
  keepUp();
}

const typists = new Map();
export function typing(handle) {
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
