// Agents at work: the lines of their turns are what the log says, however fast their steps come.

import { $$, elapse, fetchPage, localTimes } from "./shell.js";
import { id, list, pause, soon } from "./conversation.js";
import { beside, place } from "./items.js";
import { renewSide } from "./side.js";

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
export async function work(author, sequence) {
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

// Whether an agent is at work, or was a moment ago.
export const isAtWork = (author) => turns.has(author) || $$(".tools[data-running]", list).some((one) => one.dataset.author === author);
