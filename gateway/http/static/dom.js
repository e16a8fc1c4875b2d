// Small helpers for the document. Text only ever enters as text: there is no way to hand in markup.

export const $ = (id) => document.getElementById(id);

/** An element: h("button", {class: "quiet", onclick: f}, "Copy"). */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const PATHS = {
  again: "M15.5 8A6 6 0 1 0 16 11.5M15.5 4v4h-4",
  chevron: "m8 5 5 5-5 5",
  copy: "M7.5 7.5V4H16v8.5h-3.5M4 7.5h8.5V16H4z",
  done: "m4.5 10.5 3.5 3.5 7.5-8",
  info: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 9.5V13M10 6.8v.2",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button that copies what `text` gives (now or later), and says that it did. */
export function copyButton(text, label = "Copy") {
  const words = h("span", {}, label);
  const button = h("button", { class: "quiet", type: "button" }, icon("copy"), words);
  button.addEventListener("click", async () => {
    const copied = await copy(await text());
    words.textContent = copied ? "Copied" : "Could not copy";
    setTimeout(() => (words.textContent = label), 2000);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers keep the clipboard from plain-http pages of other hosts; the old way still works there.
    const field = h("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const longDate = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const midnight = (time) => new Date(time).setHours(0, 0, 0, 0);
const daysAgo = (time) => Math.round((midnight(Date.now()) - midnight(time)) / 864e5);

export function timeOfDay(iso) {
  const time = new Date(iso);
  return h("time", { datetime: iso, title: full.format(time) }, clock.format(time));
}

/** As short as a list needs it: a time today, a day this week, else a date. */
export function shortTime(iso) {
  const time = new Date(iso);
  const days = daysAgo(time);
  if (Date.now() - time < 60_000) return "now";
  return days === 0 ? clock.format(time) : days < 7 ? weekday.format(time) : date.format(time);
}

export function dayOf(iso) {
  const days = daysAgo(new Date(iso));
  return days === 0 ? "Today" : days === 1 ? "Yesterday" : longDate.format(new Date(iso));
}

export function tooltipTime(iso) {
  return full.format(new Date(iso));
}
