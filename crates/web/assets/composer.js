// What is written: whom to mention, whom it would wake, and that it is sent once.

import { $, call, toast } from "./shell.js";

// Makes the composer of a page work; `sent` is called when something is on its way.
export function compose(composer, main, sent) {
  const id = main.dataset.channel;
  const thread = main.dataset.thread;
  const api = `/api/v1/channels/${id}`;
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
      preview.replaceChildren(quiet("While you write, this shows who will be woken."));
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
  const WORDS = { direct_message: "you are alone", direct_mention: "named", thread_question: "asked in its thread",
    assignment: "given work", approval: "leave is asked or given", blocker: "something cannot go on", cancellation: "told to stop",
    safety: "about somebody's safety", role_mention: "its role is named", thread_participation: "in this thread",
    stream_owner: "owns the work stream", thanks: "thanks", acknowledgement: "seen", addressed_to_other: "for somebody else",
    agent_no_task: "asks for nothing", unmentioned: "names nobody", status_broadcast: "news", digest: "a summary",
    edited_after_response: "changed after it was answered", escalation: "somebody else did not answer", stale: "too late",
    loop_guard: "a loop", inbound_reaction: "a reaction" };
  function part(kind, word, some) {
    const span = document.createElement("span");
    span.className = kind;
    const names = some.slice(0, 4).map((one) => one.handle).join(", ") + (some.length > 4 ? ` +${some.length - 4}` : "");
    const strong = document.createElement("strong");
    strong.textContent = names;
    const why = WORDS[some[0].reason] ?? "";
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
    point();
    menu.replaceChildren(...options.map(([name, kind], n) => {
      const li = document.createElement("li");
      li.id = `option-${n}`;
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
  // Who hears the page is told what is picked.
  function point() {
    if (menu.hidden) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", `option-${picked}`);
  }
  function take(n) {
    const end = field.selectionStart;
    const begin = field.value.slice(0, end).lastIndexOf("@");
    field.setRangeText(`@${options[n][0]} `, begin, end, "end");
    menu.hidden = true;
    point();
    changed();
  }
  function pick(step) {
    picked = (picked + step + options.length) % options.length;
    [...menu.children].forEach((li, n) => li.setAttribute("aria-selected", String(n === picked)));
    menu.children[picked].scrollIntoView({ block: "nearest" });
    point();
  }

  let typedAt = 0;
  function changed() {
    fit();
    complete();
    sessionStorage.setItem(key, field.value);
    clearTimeout(changed.timer);
    changed.timer = setTimeout(ask, 300);
    if (field.value && Date.now() - typedAt >= 2000) {
      typedAt = Date.now();
      call("POST", `${api}/typing${thread ? `?thread=${thread}` : ""}`).catch(() => undefined);
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
    sent();
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
