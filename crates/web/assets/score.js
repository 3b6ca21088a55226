// The editor of a Score a little better: more rows when they are needed, what is fragile by design while one writes, files
// beside pasting. Everything works without it.

import { $, $$, toast } from "./shell.js";

const { document, location } = globalThis;
const form = $("form[data-score]");

// What is fragile by design, as it is written now.
let due;
let asked = 0;
async function look() {
  asked += 1;
  const mine = asked;
  const answer = await fetch("/scores/findings", { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => null);
  // What was asked later is newer.
  if (!answer?.ok || mine !== asked) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  $("#findings").replaceChildren(...page.body.childNodes);
}
// With an edit link and nobody signed in the hub may answer nothing about drafts: what was saved is shown then.
const mayLook = form && !(location.pathname.includes("/edit/") && !$("#rail .who a[href='/account']"));
form?.addEventListener("input", () => {
  clearTimeout(due);
  if (mayLook) due = setTimeout(look, 300);
});

// One more row: the last one again, empty and under the next number.
function addRow(list) {
  const rows = $$(":scope > [data-row]", list);
  const last = rows.at(-1);
  const old = last.dataset.row;
  const number = Math.max(...rows.map((row) => Number(row.dataset.row.split(".").at(-1)))) + 1;
  const prefix = `${list.dataset.list}.${number}`;
  const row = last.cloneNode(true);
  for (const inner of $$("[data-list]", row)) for (const extra of $$(":scope > [data-row]", inner).slice(1)) extra.remove();
  for (const one of [row, ...$$("*", row)]) {
    for (const name of ["name", "id", "for", "data-row", "data-list", "data-add"]) {
      const value = one.getAttribute(name);
      if (value === old || value?.startsWith(`${old}.`)) one.setAttribute(name, prefix + value.slice(old.length));
    }
  }
  for (const field of $$("input, textarea, select", row)) {
    if (field.type === "checkbox") field.checked = false;
    else if (field.tagName === "SELECT") field.selectedIndex = 0;
    else field.value = "";
  }
  if (row.tagName === "DETAILS") row.open = true;
  for (const name of $$("summary strong", row)) name.textContent = list.dataset.list === "voice" ? "Another voice" : "Another situation";
  for (const tag of $$("summary .tag, summary .muted", row)) tag.remove();
  list.append(row);
  $("input", row)?.focus();
}
if (form) {
  for (const button of $$("[data-add]", form)) button.hidden = false;
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-add]");
    const list = button && $$("[data-list]", form).find((one) => one.dataset.list === button.dataset.add);
    if (list) addRow(list);
  });
  // What cannot be seen cannot be mended: a fault in a closed row opens it.
  form.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);
}

// A file is converted by the hub, in memory, and what comes back is put where it would have been pasted.
const evidence = $("form[data-evidence]");
if (evidence) {
  const [chosen, text, format] = [$("[data-file]", evidence), $("textarea", evidence), evidence.elements.format];
  chosen.hidden = false;
  $("input", chosen).addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    const content = await file.text();
    if (format.value === "bundle" || (format.value === "auto" && /^\s*\{[^]*"schema"\s*:\s*"choir\.(evidence|answers)/.test(content.slice(0, 100_000)))) {
      [text.value, format.value, evidence.dataset.ready] = [content, "bundle", ""];
      return;
    }
    const link = /\/edit\/(es_[^/]+)/.exec(location.pathname)?.[1];
    const query = new URLSearchParams({ score: evidence.dataset.scoreId });
    if (evidence.elements.complete.checked) query.set("complete", "true");
    for (const name of ["run_id", "scenario", "voice"]) {
      if (evidence.elements[name].value) query.set(name, evidence.elements[name].value);
    }
    const answer = await fetch(`/api/v1/adapt/${format.value}?${query}`, {
      method: "POST", body: content, headers: { "content-type": "application/json", ...(link && { authorization: `Bearer ${link}` }) },
    });
    const said = await answer.json().catch(() => null);
    if (!answer.ok) {
      toast(said?.error?.message ?? "The hub could not convert this file");
      return;
    }
    [text.value, format.value, evidence.dataset.ready] = [JSON.stringify(said), "bundle", ""];
    toast(`${said.events.length} events, ${said.adapter_warnings.length} warnings: look at them, then add it`);
  });
}
