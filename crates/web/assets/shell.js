// What every page can do a little better with a script: local times, copying, jumping, lists that stay fresh.

const { document, location, window } = globalThis;
export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// Times are written in UTC by the hub; here they become the reader's own. A day alone is that day, wherever one reads it.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const days = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
export function localTimes(within = document) {
  for (const time of $$("time[datetime]", within)) {
    const isDay = time.dateTime.length === 10;
    const [year, month, day] = time.dateTime.split(/\D/).map(Number);
    const at = isDay ? new Date(year, month - 1, day) : new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    if (isDay) time.textContent = days.format(at);
    else {
      const format = time.matches(".dated") ? dated : time.matches(".date") ? dates : clock;
      time.textContent = format.format(at);
      time.title = whole.format(at);
    }
  }
}

// What the hub's clock says, as far as this page knows it; and how long something goes on by it.
let ahead = Date.now() - Number($("#rail nav")?.dataset.now ?? Date.now());
export const hubNow = () => Date.now() - ahead;
export const minutes = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
export function elapse(within = document) {
  for (const one of $$("[data-since]", within)) {
    const seconds = Math.max(0, Math.round((hubNow() - Number(one.dataset.since)) / 1000));
    const hours = Math.floor(seconds / 3600);
    $(".elapsed", one).textContent = hours ? `${hours} h ${Math.floor(seconds / 60) % 60} min` : minutes(seconds);
  }
}
setInterval(elapse, 1000);

// Asks the API, and returns what it says or throws what it says against it.
export async function call(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.status === 401) location.assign("/signin");
  const text = await answer.text();
  const said = text ? JSON.parse(text) : null;
  if (!answer.ok) throw new Error(said?.error?.message ?? `The hub answered ${answer.status}`);
  return said;
}

let toastEnd;
export function toast(words) {
  $(".toast")?.remove();
  clearTimeout(toastEnd);
  const box = document.createElement("p");
  box.className = "toast";
  box.setAttribute("role", "status");
  box.textContent = words;
  document.body.append(box);
  toastEnd = setTimeout(() => box.remove(), 6000);
}

// A page of ours as a document, or nothing if one is not signed in any more.
export async function fetchPage(url) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (answer.redirected && new URL(answer.url).pathname === "/signin") {
    location.assign("/signin");
    return null;
  }
  if (!answer.ok) throw new Error(`${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

document.addEventListener("click", async (event) => {
  const stop = event.target.closest("[data-stop-agent]");
  if (stop && isSure(stop, "Stop it?")) {
    await call("POST", `/api/v1/agents/${stop.dataset.stopAgent}/stop`).then(
      ({ stopped }) => toast(stopped.length ? "Stopped" : "No work to stop"),
      (error) => toast(error.message),
    );
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard?.writeText($(`#${copy.dataset.copy}`).textContent).then(
      () => toast("Copied"),
      () => toast("The browser does not let this page copy"),
    );
  }
  if (event.target.closest("[data-menu]")) {
    $("#shell").classList.add("menu");
    $("[data-close-menu]").focus();
  }
  if (event.target.closest("[data-close-menu]")) closeMenu();
  if (event.target.closest("[data-side]")) $("#side")?.classList.toggle("open");
  const pane = event.target.closest("a[data-pane]");
  if (pane && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    openPane(pane.href);
  }
});

// On a phone the rail is a menu: whoever leaves it is where it was opened.
function closeMenu() {
  if (!$("#shell")?.classList.contains("menu")) return;
  $("#shell").classList.remove("menu");
  $("[data-menu]")?.focus();
}

// The side of another page, without leaving this one.
export async function openPane(url) {
  const side = $("#side");
  const page = await fetchPage(url).catch(() => null);
  const other = page && $("#side", page);
  if (!side || !other) return location.assign(url);
  side.replaceChildren(...other.childNodes);
  side.classList.add("open");
  localTimes(side);
  return undefined;
}

// What is asked before it is done: the first press arms the button for a while, the second one does it.
const sure = new Map();
export function isSure(button, words) {
  const armed = sure.get(button);
  const disarm = () => {
    button.replaceChildren(...sure.get(button).before);
    delete button.dataset.armed;
    sure.delete(button);
  };
  if (armed) {
    clearTimeout(armed.end);
    disarm();
    return true;
  }
  sure.set(button, { before: [...button.childNodes], end: setTimeout(disarm, 4000) });
  button.dataset.armed = "";
  button.textContent = words;
  return false;
}
document.addEventListener("submit", (event) => {
  const words = event.submitter?.dataset.sure;
  if (words && !isSure(event.submitter, words)) event.preventDefault();
});

// The rail of a page that stays open: what is new, where agents are at work. Of a page that nobody sees, less often.
const rail = $("#rail nav[data-live]");
const RAIL_MS = 15_000;
let railAt = 0;
let waits = Number($("#waits")?.textContent ?? 0);
export async function renewRail() {
  railAt = Date.now();
  const page = await fetchPage("/rail").catch(() => null);
  const fresh = page && $("nav", page);
  if (!fresh || rail.matches(":active") || rail.contains(document.activeElement)) return;
  ahead = Date.now() - Number(fresh.dataset.now);
  const here = $("[aria-current]", rail)?.getAttribute("href");
  const link = here && $$("a", fresh).find((a) => a.getAttribute("href") === here);
  if (link) {
    link.setAttribute("aria-current", "page");
    // What is looked at is read.
    if (!document.hidden && here.startsWith("/c/")) {
      link.classList.remove("unread");
      $(".dot, .count", link)?.remove();
    }
  }
  const top = rail.scrollTop;
  rail.replaceChildren(...fresh.childNodes);
  rail.scrollTop = top;
  elapse(rail);
  const now = Number($("#waits")?.textContent ?? 0);
  if (now > waits && document.hidden && globalThis.Notification?.permission === "granted") {
    // One notice, however many pages are open.
    const what = now === 1 ? "1 thing waits" : `${now} things wait`;
    new Notification(`${what} for you on ${location.host}`, { tag: "chorus-waiting" });
  }
  waits = now;
}
if (rail) {
  const due = () => Date.now() - railAt >= (document.hidden ? 4 : 1) * RAIL_MS;
  setInterval(() => { if (due()) renewRail(); }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) renewRail(); });
}

// Lists that stay fresh: the page is asked for again, and shown where nobody writes in it.
// Where a stream tells that something changed, it is asked for then; a page that nobody sees lets go of it.
const fresh = $("main[data-refresh]");
async function refresh() {
  if (document.hidden || fresh.contains(document.activeElement) && document.activeElement !== fresh) return;
  // What is under the pointer stays where it is until the pointer is away.
  if (fresh.matches(":hover") && fresh.dataset.anyway === undefined) return;
  const page = await fetchPage(location.href).catch(() => null);
  if (!page) return;
  fresh.replaceChildren(...$("main", page).childNodes);
  localTimes(fresh);
  $$("input[data-filter]").forEach(filter);
}
if (fresh) {
  setInterval(refresh, Number(fresh.dataset.refresh) * 1000);
  let changes = null;
  let soon;
  const listen = () => {
    changes?.close();
    changes = fresh.dataset.follow && !document.hidden ? new EventSource(fresh.dataset.follow) : null;
    for (const kind of ["agent", "gone"]) {
      changes?.addEventListener(kind, () => {
        clearTimeout(soon);
        soon = setTimeout(refresh, 200);
      });
    }
  };
  document.addEventListener("visibilitychange", listen);
  fresh.addEventListener("mouseleave", refresh);
  listen();
}

// Notices in the browser, for who asks for them.
const notices = $("[data-notify]");
if (notices && globalThis.Notification?.permission === "default") {
  notices.hidden = false;
  notices.addEventListener("click", async () => {
    if (await Notification.requestPermission() !== "default") notices.hidden = true;
  });
}

// A field that filters what stands below it.
function filter(field) {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of $$(field.dataset.filter)) {
    const text = one.textContent.toLowerCase();
    one.hidden = !words.every((word) => text.includes(word));
  }
}
for (const field of $$("input[data-filter]")) field.addEventListener("input", () => filter(field));

// Jumping: everything in the rail by a part of its name; else what was said.
function jump() {
  const dialog = document.createElement("dialog");
  const inside = document.createElement("div");
  inside.className = "in";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Jump to a page or a conversation, or search what was said";
  field.setAttribute("aria-label", field.placeholder);
  const list = document.createElement("ul");
  inside.append(field, list);
  dialog.append(inside);
  document.body.append(dialog);
  const places = $$("#rail nav a[href]").map((a) => ({ href: a.href, name: a.textContent.trim() })).filter((p) => p.name);
  const show = () => {
    const wanted = field.value.trim().toLowerCase();
    const found = places.filter((place) => place.name.toLowerCase().includes(wanted)).slice(0, 12);
    if (wanted) found.push({ href: `/search?q=${encodeURIComponent(field.value.trim())}`, name: `Search for “${field.value.trim()}”` });
    list.replaceChildren(...found.map((place, n) => {
      const li = document.createElement("li");
      const a = document.createElement("a");
      a.href = place.href;
      a.textContent = place.name;
      if (n === 0) a.className = "chosen";
      li.append(a);
      return li;
    }));
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", (event) => {
    const all = $$("a", list);
    const at = all.findIndex((a) => a.className === "chosen");
    if (event.key === "Enter" && all[at]) location.assign(all[at].href);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) {
      event.preventDefault();
      all[at]?.classList.remove("chosen");
      all[(at + step + all.length) % all.length].className = "chosen";
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  show();
  dialog.showModal();
}

const KEYS = [["Ctrl K", "search or jump to"], ["j k", "next, previous message"], ["r", "reply in the thread"], ["e", "react"], ["c", "take it on"],
  ["w", "why did who get this"], ["/", "search"], ["Ctrl Enter", "send"], ["Esc", "back"], ["?", "these keys"]];
function keys() {
  const dialog = document.createElement("dialog");
  const inside = document.createElement("div");
  inside.className = "in";
  const head = document.createElement("h2");
  head.textContent = "Keys";
  const list = document.createElement("dl");
  list.className = "pairs";
  for (const [key, what] of KEYS) {
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    const kbd = document.createElement("kbd");
    kbd.textContent = key;
    dt.append(kbd);
    dd.textContent = what;
    list.append(dt, dd);
  }
  inside.append(head, list);
  dialog.append(inside);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export const isTyping = (target) => target.matches?.("input, textarea, select, [contenteditable]");
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!$("dialog[open]")) jump();
  } else if (!isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey) {
    if (event.key === "?") keys();
    if (event.key === "/") {
      event.preventDefault();
      jump();
    }
    if (event.key === "Escape") {
      closeMenu();
      $("#side")?.classList.remove("open");
    }
  }
});
const help = $("[data-keys]");
if (help) {
  help.hidden = false;
  help.addEventListener("click", keys);
}
$("#jump")?.addEventListener("click", (event) => {
  event.preventDefault();
  jump();
});

localTimes();
elapse();
window.addEventListener("pageshow", () => $("#shell")?.classList.remove("menu"));
