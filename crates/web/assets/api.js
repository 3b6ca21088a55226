// Calling an operation from its description: a form made of the fields that stand there, when somebody opens it. The key is in
// its field and nowhere else; cookies are left out, so that what happens is what a program with that key would see.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// A stream does not end, and a body may be large: so long is listened, and so much is shown.
const PATIENCE = 10000;
const MOST = 65536;

$("[data-key]").hidden = false;
// It is sent nowhere by itself: the calls take it along.
$("[data-key]").addEventListener("submit", (event) => event.preventDefault());

function labelled(name, field) {
  const label = document.createElement("label");
  label.append(name, field);
  return label;
}

function form(operation) {
  const form = document.createElement("form");
  form.className = "fields";
  for (const row of $$("tr[data-field]", operation)) {
    if (row.dataset.place === "body") continue;
    const field = document.createElement("input");
    field.name = row.dataset.field;
    field.dataset.place = row.dataset.place;
    field.required = "required" in row.dataset;
    form.append(labelled(`${row.dataset.field} (${row.dataset.place})`, field));
  }
  if (operation.dataset.body !== undefined) {
    const field = document.createElement("textarea");
    field.name = "body";
    field.rows = 6;
    field.spellcheck = false;
    try {
      field.value = JSON.stringify(JSON.parse(operation.dataset.body), null, 2);
    } catch {
      field.value = operation.dataset.body;
    }
    form.append(labelled("body (JSON)", field));
  }
  const button = document.createElement("button");
  button.textContent = operation.dataset.method === "GET" ? "Try it" : "Try it, for real";
  const answer = document.createElement("pre");
  answer.className = "copy";
  answer.hidden = true;
  answer.setAttribute("role", "status");
  form.append(button, answer);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call(operation, form, answer);
  });
  return form;
}

// The request that a form stands for.
function request(operation, form) {
  const headers = new Headers();
  const query = new URLSearchParams();
  let path = operation.dataset.path;
  for (const field of $$("[data-place]", form)) {
    if (field.dataset.place === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (!field.value) continue;
    else if (field.dataset.place === "query") query.append(field.name, field.value);
    else if (field.dataset.place === "header") headers.set(field.name, field.value);
  }
  const key = $("#key").value.trim();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const body = form.elements.body?.value;
  if (body) headers.set("Content-Type", "application/json");
  const url = query.size ? `${path}?${query}` : path;
  return [url, { method: operation.dataset.method, headers, body: body || undefined, credentials: "omit" }];
}

async function call(operation, form, answer) {
  answer.hidden = false;
  answer.textContent = "…";
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), PATIENCE);
  let said = "";
  try {
    const [url, options] = request(operation, form);
    const response = await fetch(url, { ...options, signal: stop.signal });
    const head = `${response.status} ${response.statusText}\n${response.headers.get("content-type") ?? ""}\n\n`;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let more = reader && (await reader.read()); more && !more.done && said.length < MOST; more = await reader.read()) {
      said += more.value;
      answer.textContent = head + said;
    }
    if (said.length >= MOST) stop.abort();
    answer.textContent = head + pretty(said.slice(0, MOST));
  } catch (error) {
    answer.textContent = stop.signal.aborted && said ? `${answer.textContent}\n(listened for ${PATIENCE / 1000} s)` : String(error);
  } finally {
    clearTimeout(timer);
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

for (const details of $$("details.try")) {
  details.addEventListener("toggle", () => {
    if (details.open && !$("form", details)) details.append(form(details.closest(".operation")));
  });
}
