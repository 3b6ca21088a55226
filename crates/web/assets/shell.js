// What every page can do a little better with a script: local times, copying, jumping, lists that stay fresh.

const { document, location, window } = globalThis;
export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// Times are written in UTC by the hub; here they become the reader's own.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const days = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
export function localTimes(within = document) {
  for (const time of $$("time[datetime]", within)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    if (time.dateTime.length > 10) {
      time.textContent = clock.format(at);
      time.title = whole.format(at);
    } else {
      time.textContent = days.format(at);
    }
  }
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
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard?.writeText($(`#${copy.dataset.copy}`).textContent).then(
      () => toast("Copied"),
      () => toast("The browser does not let this page copy"),
    );
  }
  if (event.target.closest("[data-menu]")) $("#shell").classList.add("menu");
  if (event.target.closest("[data-side]")) $("#side")?.classList.toggle("open");
  const pane = event.target.closest("a[data-pane]");
  if (pane && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    openPane(pane.href);
  }
});

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

// Lists that stay fresh: the page is asked for again, and shown where nobody writes in it.
const fresh = $("main[data-refresh]");
if (fresh) {
  const every = Number(fresh.dataset.refresh) * 1000;
  setInterval(async () => {
    if (document.hidden || fresh.matches(":hover") || fresh.contains(document.activeElement)) return;
    const page = await fetchPage(location.href).catch(() => null);
    if (!page) return;
    fresh.replaceChildren(...$("main", page).childNodes);
    localTimes(fresh);
  }, every);
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
for (const field of $$("input[data-filter]")) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const one of $$(field.dataset.filter)) {
      const text = one.textContent.toLowerCase();
      one.hidden = !words.every((word) => text.includes(word));
    }
  });
}

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

const KEYS = [["Ctrl K", "search or jump to"], ["j k", "next, previous message"], ["r", "reply in the thread"], ["e", "react"],
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
      $("#shell").classList.remove("menu");
      $("#side")?.classList.remove("open");
    }
  }
});
$("#jump")?.addEventListener("click", (event) => {
  event.preventDefault();
  jump();
});

localTimes();
window.addEventListener("pageshow", () => $("#shell")?.classList.remove("menu"));
