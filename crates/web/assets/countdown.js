// Countdowns: the hub says how long is left, so its clock counts and not the reader's.

import { $$ } from "./shell.js";

// When each was first seen: a list that was asked for again counts from when it came.
const seen = new WeakMap();

function words(ms) {
  const seconds = Math.ceil(ms / 1000);
  if (seconds <= 0) return "its time is over";
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min left`;
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`;
}

function tick() {
  for (const one of $$("[data-left]")) {
    if (!seen.has(one)) seen.set(one, performance.now());
    const left = Number(one.dataset.left) - (performance.now() - seen.get(one));
    one.textContent = words(left);
    one.classList.toggle("warn", left < 60_000);
  }
}

tick();
setInterval(tick, 1000);
