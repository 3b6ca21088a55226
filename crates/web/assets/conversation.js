// What the scripts of a conversation share: which one it is, where it stands on the page, and doing something soon, once.

import { $ } from "./shell.js";

export const main = $("main[data-channel]");
export const id = main.dataset.channel;
export const thread = main.dataset.thread;
export const stream = $("#stream");
export const list = $("#items");

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

const waiting = new Map();
export function soon(key, work, ms = 60) {
  clearTimeout(waiting.get(key));
  waiting.set(key, setTimeout(() => { waiting.delete(key); work(); }, ms));
}
