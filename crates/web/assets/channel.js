// A conversation as it goes on: what comes in, what is written, and the keyboard.

import { $, $$, fetchPage, isTyping, localTimes, openPane, toast } from "./shell.js";

const main = $("main[data-channel]");
const id = main.dataset.channel;
const thread = main.dataset.thread;
const api = `/api/v1/channels/${id}`;
const stream = $("#stream");
const list = $("#items");
const TOGETHER = 5 * 60 * 1000;
let last = Number(main.dataset.last);
let unseen = 0;

const atEnd = () => stream.scrollHeight - stream.scrollTop - stream.clientHeight < 80;
const toEnd = () => { stream.scrollTop = stream.scrollHeight; };

async function call(method, path, body) {
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

// Markup of ours, as nodes.
function nodes(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  return [...page.body.children];
}

// An item in its place: after the one that came before it. A message beside one of the same author needs no second head.
function place(item) {
  const from = Number(item.dataset.from);
  if (item.id && document.getElementById(item.id)) {
    document.getElementById(item.id).replaceWith(item);
  } else {
    const later = $$(":scope > [data-from]", list).find((other) => Number(other.dataset.from) > from);
    if (later) later.before(item);
    else list.append(item);
  }
  const previous = item.previousElementSibling;
  if (item.matches(".message") && previous?.matches(".message")) {
    const near = item.dataset.at - previous.dataset.at < TOGETHER;
    const same = previous.dataset.author === item.dataset.author && previous.dataset.thread === item.dataset.thread;
    item.classList.toggle("follows", near && same);
    if (previous.dataset.thread === item.dataset.thread) $(".thread-of", item)?.remove();
  }
  const of = $(".thread-of a", item);
  const root = of && document.getElementById(item.dataset.thread);
  if (root) of.textContent = $(".text", root)?.textContent.trim().slice(0, 80) ?? of.textContent;
  localTimes(item);
}

function shown(count) {
  $("#nothing")?.remove();
  if (document.hidden || !atEndBefore) {
    unseen += count;
    const pill = $("#pill");
    pill.hidden = unseen === 0;
    pill.textContent = `${unseen} new`;
  } else {
    toEnd();
    read();
  }
}
let atEndBefore = true;

// One item again, as it stands now.
async function renew(item) {
  const from = Number(item.dataset.from);
  const to = Number(item.dataset.to);
  const page = await fetchPage(`/c/${id}/items?after=${from - 1}&limit=${to - from + 1}`).catch(() => null);
  const fresh = page && $$("[data-from]", page).find((one) => Number(one.dataset.from) === from);
  if (!fresh) return;
  fresh.classList.toggle("follows", item.classList.contains("follows"));
  fresh.classList.toggle("chosen", item.classList.contains("chosen"));
  if (item.open) fresh.open = true;
  item.replaceWith(fresh);
  localTimes(fresh);
}

// The turn of an agent, from where it began.
async function renewWork(author, sequence) {
  const running = $$(".tools[data-running]", list).findLast((one) => one.dataset.author === author);
  const from = running ? Number(running.dataset.from) : sequence;
  const page = await fetchPage(`/c/${id}/items?after=${from - 1}&limit=200`).catch(() => null);
  if (!page) return;
  const fresh = $$(".tools", page).filter((one) => one.dataset.author === author);
  if (running) {
    const again = fresh.find((one) => Number(one.dataset.from) === from);
    if (again) {
      again.open = running.open || again.open;
      running.replaceWith(again);
      localTimes(again);
    } else {
      running.remove();
    }
  }
  for (const one of fresh) {
    if (!$(`.tools[data-from="${one.dataset.from}"]`, list)) place(one);
  }
}

const begun = new Map();
const waiting = new Map();
function soon(key, work) {
  clearTimeout(waiting.get(key));
  waiting.set(key, setTimeout(() => { waiting.delete(key); work(); }, 60));
}

function follow() {
  const live = $("#live");
  const lost = $("#lost");
  live.hidden = false;
  const events = new EventSource(`/c/${id}/live?after=${last}`);
  let lastAt = new Date();
  events.addEventListener("open", () => {
    live.classList.remove("lost");
    live.textContent = "Live";
    // What was told while nobody listened is asked for.
    if (!lost.hidden) soon("waiting", renewWaiting);
    lost.hidden = true;
  });
  events.addEventListener("error", () => {
    live.classList.add("lost");
    live.textContent = "Reconnecting";
    lost.hidden = false;
    lost.textContent = `Reconnecting, last event ${lastAt.toLocaleTimeString()}`;
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  });
  const seen = (event) => {
    lastAt = new Date();
    last = Math.max(last, Number(event.lastEventId));
  };
  events.addEventListener("item", (event) => {
    seen(event);
    const data = JSON.parse(event.data);
    if (data.thread) {
      const root = document.getElementById(data.thread);
      if (root && root.dataset.from) soon(data.thread, () => renew(root));
    }
    if (thread && data.thread !== thread) return;
    atEndBefore = atEnd();
    const items = nodes(data.html).filter((node) => node.dataset.from);
    items.forEach((item) => document.getElementById(`grows-${item.id}`)?.remove());
    const author = items[0]?.dataset.author;
    items.forEach(place);
    const running = author && $$(".tools[data-running]", list).findLast((one) => one.dataset.author === author);
    if (running && !begun.has(author)) soon(author, () => renewWork(author, last));
    if (data.kind === "join" || data.kind === "leave" || data.kind === "artifact") soon("side", renewSide);
    shown(items.length);
    notify(items[0]);
  });
  events.addEventListener("touch", (event) => {
    seen(event);
    const data = JSON.parse(event.data);
    // What an agent does has a target too: the message it is about.
    if (["reaction", "edit", "delete"].includes(data.kind)) {
      const item = document.getElementById(data.target);
      if (item) soon(data.target, () => renew(item));
    } else if (!thread) {
      atEndBefore = atEnd();
      // Of several that come at once, the first is where the turn begins.
      if (!begun.has(data.author)) begun.set(data.author, last);
      soon(data.author, () => {
        const sequence = begun.get(data.author);
        begun.delete(data.author);
        renewWork(data.author, sequence).then(() => { if (atEndBefore) toEnd(); });
      });
    }
  });
  events.addEventListener("typing", (event) => typing(JSON.parse(event.data).handle));
  events.addEventListener("growing", (event) => grows(JSON.parse(event.data)));
  events.addEventListener("ephemeral", (event) => passes(JSON.parse(event.data)));
  events.addEventListener("approvals", () => soon("waiting", renewWaiting));
}

// Members and documents, when they change and nobody reads why.
async function renewSide() {
  const tab = $(".tabs a[aria-current]");
  if (tab && tab.getAttribute("href") !== "#side" && !$("#side").contains(document.activeElement)) {
    const page = await fetchPage(tab.href).catch(() => null);
    if (page) $("#side").replaceChildren(...$("#side", page).childNodes);
  }
}

// What waits until somebody agrees. Whoever writes why not is left alone; what is decided meanwhile says so itself.
async function renewWaiting() {
  const cards = $("#waiting");
  if (cards.contains(document.activeElement) && document.activeElement.matches("input")) return;
  const page = await fetchPage(`/c/${id}/waiting`).catch(() => null);
  if (!page) return;
  const follows = atEnd();
  cards.replaceChildren(...page.body.childNodes);
  cards.hidden = cards.children.length === 0;
  localTimes(cards);
  if (follows) toEnd();
}

// An answer that is being made, at the end until the message itself takes its place.
function grows({ event_id: event, content, handle }) {
  let item = document.getElementById(`grows-${event}`);
  if (!content) { item?.remove(); return; }
  if (!item && document.getElementById(event)) return;
  const follows = atEnd();
  if (!item) {
    item = document.createElement("div");
    item.id = `grows-${event}`;
    item.className = "growing";
    item.append(document.createElement("strong"), document.createElement("p"));
    item.firstChild.textContent = handle;
    stream.append(item);
  }
  item.lastChild.textContent = content;
  if (follows) toEnd();
}

// What is only for who looks now: it is in no history, and gone when the page is.
function passes({ author, content, thread: of }) {
  if (thread && of !== thread) return;
  const follows = atEnd();
  const item = document.createElement("div");
  item.className = "growing";
  item.append(document.createElement("strong"), document.createElement("p"));
  item.firstChild.textContent = `${author.handle}, only now`;
  item.lastChild.textContent = content;
  stream.append(item);
  if (follows) toEnd();
}

const typists = new Map();
function typing(handle) {
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

function notify(item) {
  if (!document.hidden || !item || globalThis.Notification?.permission !== "granted") return;
  const mine = $$(".mention", item).some((one) => one.textContent.slice(1).toLowerCase() === main.dataset.me.toLowerCase());
  if (mine) new Notification(`${item.dataset.handle} in ${document.title}`, { body: $(".text", item)?.textContent.slice(0, 200) });
}

// What is on the screen was read.
let readUpTo = 0;
function read() {
  if (document.hidden || last <= readUpTo || thread) return;
  readUpTo = last;
  soon("read", () => fetch(`/c/${id}/read`, { method: "POST", body: new URLSearchParams({ seq: String(readUpTo) }) }));
}
stream.addEventListener("scroll", () => {
  if (atEnd()) {
    unseen = 0;
    $("#pill").hidden = true;
    read();
  }
});
$("#pill").addEventListener("click", toEnd);
document.addEventListener("visibilitychange", () => { if (!document.hidden && atEnd()) read(); });

// Earlier, without losing one's place.
stream.addEventListener("click", async (event) => {
  const link = event.target.closest("#earlier");
  if (!link) return;
  event.preventDefault();
  const query = new URLSearchParams({ before: link.dataset.before });
  if (thread) query.set("thread", thread);
  const answer = await fetch(`/c/${id}/items?${query}`);
  if (!answer.ok) return toast("What is earlier could not be fetched");
  const height = stream.scrollHeight;
  const top = stream.scrollTop;
  const items = nodes(await answer.text());
  list.prepend(...items);
  localTimes(list);
  stream.scrollTop = top + stream.scrollHeight - height;
  const next = answer.headers.get("x-next");
  if (next) link.dataset.before = next;
  else link.parentElement.remove();
  return undefined;
});

// Reactions, edits, taking back.
function react(item, signal, removed) {
  return call("POST", `${api}/messages/${item.id}/reactions`, { signal, removed }).catch((error) => toast(error.message));
}
function chooseReaction(item) {
  $(".reactions-menu")?.remove();
  const menu = document.createElement("div");
  menu.className = "reactions-menu";
  menu.append($("#signals").content.cloneNode(true));
  item.append(menu);
  $("button", menu).focus();
}
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
  const end = () => { form.remove(); text.hidden = false; };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call("PATCH", `${api}/messages/${item.id}`, { content: field.value }).then(end, (error) => toast(error.message));
  });
}
function takeBack(item, button) {
  if (button.dataset.sure) {
    call("DELETE", `${api}/messages/${item.id}`).catch((error) => toast(error.message));
  } else {
    button.dataset.sure = "yes";
    button.textContent = "Take back?";
    setTimeout(() => { delete button.dataset.sure; }, 4000);
  }
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
    if (act.dataset.act === "edit") edit(item);
    if (act.dataset.act === "delete") takeBack(item, act);
  } else if (!event.target.closest(".reactions-menu")) {
    $(".reactions-menu")?.remove();
  }
});

// Claims run out by the hub's clock, as far as this page knows it.
const ahead = Date.now() - Number(main.dataset.now);
setInterval(() => {
  for (const chip of $$("[data-until]", list)) {
    const left = Math.round((Number(chip.dataset.until) - (Date.now() - ahead)) / 1000);
    chip.classList.toggle("warn", left < 60);
    chip.classList.toggle("work", left >= 60);
    if (left > 0) $(".countdown", chip).textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    else {
      chip.removeAttribute("data-until");
      chip.className = "chip";
      chip.textContent = "free to claim";
    }
  }
}, 1000);

// The keyboard: one message is chosen.
const chosen = () => $(".item.chosen", list);
function choose(item) {
  chosen()?.classList.remove("chosen");
  item?.classList.add("chosen");
  item?.focus({ preventScroll: true });
  item?.scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (event) => {
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = $$(".item", list);
  const at = all.indexOf(chosen());
  if (event.key === "j") choose(all[Math.min(at + 1, all.length - 1)] ?? all.at(-1));
  if (event.key === "k") choose(all[at < 0 ? all.length - 1 : Math.max(at - 1, 0)]);
  const item = chosen();
  if (event.key === "e" && item) { event.preventDefault(); chooseReaction(item); }
  if (event.key === "r") {
    event.preventDefault();
    if (item) location.assign($("a[data-act=reply]", item).href);
    else $("#content")?.focus();
  }
  if (event.key === "w" && item) openPane($("a[data-act=why]", item).href);
  if (event.key === "Escape") { $(".reactions-menu")?.remove(); choose(null); }
});

// The composer.
const composer = $("#composer");
if (composer) compose();
function compose() {
  const field = $("#content");
  const preview = $("#preview");
  const menu = $("#complete");
  const names = JSON.parse(main.dataset.names);
  const key = `draft:${id}:${thread ?? ""}`;
  field.value = sessionStorage.getItem(key) ?? "";

  const message = () => {
    const intent = $("#intent").value;
    return { content: field.value, ...(thread && { thread }), ...(intent && { intent }) };
  };
  const fit = () => {
    field.rows = 1;
    const line = parseFloat(getComputedStyle(field).lineHeight);
    field.rows = Math.max(1, Math.min(12, Math.round((field.scrollHeight - 14) / line)));
  };

  let asked = 0;
  async function ask() {
    const mine = ++asked;
    if (!field.value.trim()) {
      preview.replaceChildren(quiet("While you write, this says whom it wakes."));
      return;
    }
    try {
      const { attention } = await call("POST", `${api}/messages?dry_run=true`, message());
      if (mine === asked) tell(attention);
    } catch (error) {
      if (mine === asked) preview.replaceChildren(quiet(error.message));
    }
  }
  function quiet(words) {
    const span = document.createElement("span");
    span.className = "muted";
    span.textContent = words;
    return span;
  }
  const WORDS = { direct_message: "you are alone", direct_mention: "named", thread_question: "asked in its thread", role_mention: "its role is named",
    thread_participation: "in this thread", assignment: "given work", thanks: "only thanks", status_broadcast: "only status",
    acknowledgement: "only seen", loop_guard: "a loop" };
  function part(kind, word, some) {
    const span = document.createElement("span");
    span.className = kind;
    const names = some.slice(0, 4).map((one) => one.handle).join(", ") + (some.length > 4 ? ` +${some.length - 4}` : "");
    const strong = document.createElement("strong");
    strong.textContent = names;
    const why = WORDS[some[0].reason] ?? some[0].reason.replaceAll("_", " ");
    span.append(document.createElement("i"), `${word} `, strong, ` ${why}`);
    return span;
  }
  function tell(attention) {
    const woken = attention.filter((one) => ["immediate", "buffered"].includes(one.mode));
    const knocked = attention.filter((one) => one.mode === "notify");
    const agents = names.filter(([handle, kind]) => kind === "agent" && handle !== main.dataset.me).length;
    const stored = agents - woken.length - knocked.length;
    const parts = [];
    if (woken.length) parts.push(part("woken", "Wakes", woken));
    if (knocked.length) parts.push(part("knocked", "Knocks", knocked));
    if (stored > 0 || !parts.length) {
      const span = document.createElement("span");
      span.className = "stored";
      span.append(document.createElement("i"), parts.length ? `${stored} only store it` : "Wakes nobody");
      parts.push(span);
    }
    const turns = document.createElement("span");
    turns.className = "turns";
    turns.textContent = `${woken.length} model turn${woken.length === 1 ? "" : "s"}, ${Math.max(0, stored)} saved`;
    preview.replaceChildren(...parts, turns);
  }

  // Whom to mention: those who are here.
  let options = [];
  let picked = 0;
  function complete() {
    const before = field.value.slice(0, field.selectionStart);
    const started = /(?:^|[^\w@])@([\w.-]*)$/.exec(before);
    options = started ? names.filter(([name]) => name.toLowerCase().startsWith(started[1].toLowerCase()) && name !== main.dataset.me).slice(0, 8) : [];
    picked = 0;
    menu.hidden = options.length === 0;
    menu.replaceChildren(...options.map(([name, kind], n) => {
      const li = document.createElement("li");
      li.setAttribute("role", "option");
      li.setAttribute("aria-selected", String(n === picked));
      li.textContent = `@${name}`;
      const what = document.createElement("span");
      what.className = "small muted";
      what.textContent = kind;
      li.append(what);
      li.addEventListener("mousedown", (event) => { event.preventDefault(); take(n); });
      return li;
    }));
  }
  function take(n) {
    const end = field.selectionStart;
    const begin = field.value.slice(0, end).lastIndexOf("@");
    field.setRangeText(`@${options[n][0]} `, begin, end, "end");
    menu.hidden = true;
    changed();
  }
  function pick(step) {
    picked = (picked + step + options.length) % options.length;
    [...menu.children].forEach((li, n) => li.setAttribute("aria-selected", String(n === picked)));
  }

  let typedAt = 0;
  function changed() {
    fit();
    complete();
    sessionStorage.setItem(key, field.value);
    clearTimeout(changed.timer);
    changed.timer = setTimeout(ask, 300);
    if (field.value && Date.now() - typedAt > 3000) {
      typedAt = Date.now();
      call("POST", `${api}/typing`).catch(() => undefined);
    }
  }
  field.addEventListener("input", changed);
  $("#intent").addEventListener("change", ask);
  field.addEventListener("blur", () => { menu.hidden = true; });
  field.addEventListener("keydown", (event) => {
    if (!menu.hidden) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); pick(step); return; }
      if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); take(picked); return; }
      if (event.key === "Escape") { menu.hidden = true; return; }
    }
    if (event.key === "Enter" && !event.shiftKey && (event.ctrlKey || event.metaKey || matchMedia("(min-width: 768px)").matches)) {
      event.preventDefault();
      composer.requestSubmit();
    }
    if (event.key === "Escape") field.blur();
  });

  // The same key for every try of the same message: it is said once.
  let sending = null;
  composer.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending || !field.value.trim()) return;
    sending = message();
    const once = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    preview.replaceChildren(quiet("Sending"));
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        const answer = await fetch(`${api}/messages`, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": once },
          body: JSON.stringify(sending),
        });
        const said = await answer.json();
        if (answer.ok) {
          if (field.value === sending.content) field.value = "";
          sessionStorage.removeItem(key);
          if (said.masked?.length) toast(`A credential was masked: ${said.masked.join(", ")}`);
        } else {
          toast(said.error?.message ?? `The hub answered ${answer.status}`);
        }
        break;
      } catch {
        preview.replaceChildren(quiet("Waiting for the connection. It is sent as soon as the hub is back"));
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    sending = null;
    fit();
    ask();
  });
  fit();
  if (field.value) ask();
  if (matchMedia("(min-width: 768px)").matches && !location.hash) field.focus();
}

const target = location.hash && document.getElementById(location.hash.slice(1));
const why = /\/why\/(evt_\w+)/.exec(location.pathname);
if (target) target.scrollIntoView({ block: "center" });
else if (why) choose(document.getElementById(why[1]));
else if ($("#new")) $("#new").scrollIntoView({ block: "center" });
else toEnd();
if (why) $("#side").classList.add("open");
if (main.dataset.past === undefined) {
  follow();
  if (atEnd()) read();
}
