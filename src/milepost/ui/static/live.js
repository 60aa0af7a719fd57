// Follows one event stream and replaces the parts of the page that changed. What the user is doing
// stays: focus, selection, scroll position, open details, what was typed or chosen, and what is
// being clicked.
"use strict";

const LOST_AFTER_MS = 3000; // the server ends a stream from time to time: the next one is opened soon
const status = document.getElementById("live");
let stream = null;
let lostTimer = null;
let pressed = null; // a click that ends on another element than it began on is lost
const held = new Map(); // parts that came while they were used, by id

function say(text, isBad) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("bad", Boolean(isBad));
}

function isEdited(control) {
  if (control.type === "hidden" || control.disabled) return false;
  if (control.type === "checkbox" || control.type === "radio") {
    return control.checked !== control.defaultChecked;
  }
  if (control instanceof HTMLSelectElement) {
    const options = [...control.options];
    const isInitial = (o, i) => o.defaultSelected || (i === 0 && !options.some((p) => p.defaultSelected));
    return !options.every((o, i) => control.multiple ? o.selected === o.defaultSelected : o.selected === isInitial(o, i));
  }
  return "defaultValue" in control && control.value !== control.defaultValue;
}

function isUsed(section) {
  const selection = document.getSelection();
  const isSelected = !selection.isCollapsed && selection.containsNode(section, true);
  return isSelected || section.contains(pressed) || controls(section).some(isEdited);
}

function controls(element) {
  return [...element.querySelectorAll("input, select, textarea")];
}

// Where an element is, so that its successor can be found in the new version of the part.
function pathTo(section, element) {
  const steps = [];
  for (let at = element; at !== section; at = at.parentElement) {
    steps.unshift([...at.parentElement.children].indexOf(at));
  }
  return steps;
}

function keyOf(section, element) {
  if (element.id) return "#" + element.id;
  const form = element.closest("form");
  const fields = form ? controls(form).filter((c) => c.type === "hidden" && c.name !== "csrf") : [];
  const place = form ? form.action + fields.map((c) => c.value).join() : "";
  const name = element.name || element.getAttribute("href") || element.textContent.trim();
  const key = [element.tagName, place, name].join("\n");
  return key.length > element.tagName.length + 2 ? key : pathTo(section, element).join();
}

function counterpart(section, key, selector) {
  return [...section.querySelectorAll(selector)].find((e) => keyOf(section, e) === key);
}

function remember(section) {
  const active = section.contains(document.activeElement) ? document.activeElement : null;
  const canSelect = active && typeof active.selectionStart === "number";
  return {
    focus: active && active !== section && { key: keyOf(section, active), tag: active.tagName },
    selection: canSelect ? [active.selectionStart, active.selectionEnd] : null,
    details: [...section.querySelectorAll("details")].map((d) => [d.dataset.key || d.querySelector("summary").textContent.trim(), d.open]),
    scrolls: [...section.querySelectorAll(".scroll")].map((e) => [e.scrollLeft, e.scrollTop]),
  };
}

function restore(section, state) {
  const known = new Map(state.details);
  for (const d of section.querySelectorAll("details")) {
    const key = d.dataset.key || d.querySelector("summary").textContent.trim();
    if (known.has(key)) d.open = known.get(key);
  }
  [...section.querySelectorAll(".scroll")].forEach((e, i) => {
    if (state.scrolls[i]) [e.scrollLeft, e.scrollTop] = state.scrolls[i];
  });
  const next = state.focus && counterpart(section, state.focus.key, state.focus.tag);
  if (!next) return;
  next.focus({ preventScroll: true });
  if (state.selection) next.setSelectionRange(...state.selection);
}

function replace(part) {
  const section = document.getElementById(part.id);
  if (!section || section.dataset.live === part.version) return;
  if (isUsed(section)) {
    held.set(part.id, part);
    return;
  }
  held.delete(part.id);
  const state = remember(section);
  const x = window.scrollX, y = window.scrollY;
  section.innerHTML = part.html;
  section.dataset.live = part.version;
  restore(section, state);
  window.scrollTo(x, y);
}

// What was typed is gone again (a reset, or the old value), the click has ended, or nothing is
// selected any more: show what came meanwhile.
function release({ type }) {
  if (type.startsWith("pointer")) pressed = null;
  for (const part of [...held.values()]) replace(part);
}

function open() {
  if (stream || document.hidden) return;
  stream = new EventSource(document.body.dataset.events);
  stream.onopen = () => {
    clearTimeout(lostTimer);
    lostTimer = null;
    say("Live");
  };
  stream.onerror = () => {
    lostTimer = lostTimer || setTimeout(() => say("Connection lost. What is shown may be old.", true), LOST_AFTER_MS);
    if (stream.readyState === EventSource.CLOSED) { // refused, and not tried again by itself
      close();
      setTimeout(open, LOST_AFTER_MS);
    }
  };
  stream.addEventListener("part", (event) => replace(JSON.parse(event.data)));
  stream.addEventListener("trouble", (event) => {
    const text = JSON.parse(event.data).text;
    say(text || "Live", Boolean(text));
  });
}

function close() {
  if (stream) stream.close();
  stream = null;
}

if (document.body.dataset.events) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  document.addEventListener("pointerdown", ({ target }) => { pressed = target.closest("a, button, summary"); });
  for (const name of ["focusout", "selectionchange", "pointerup", "pointercancel"]) {
    document.addEventListener(name, (event) => setTimeout(release, 0, event)); // a click comes after these
  }
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}
