"use strict";
// The daemon sends the changing part of the page as HTML, in which it has escaped all names. It is
// parsed in a document of its own, in which nothing runs or loads, and moved here.
const state = document.getElementById("state");
const link = document.getElementById("link");
const events = new EventSource("reef/page/events");
events.onmessage = (event) => {
  const parsed = new DOMParser().parseFromString(event.data, "text/html");
  state.replaceChildren(...parsed.body.childNodes);
  link.textContent = "live";
  link.className = "live";
};
events.onerror = () => {
  link.textContent = "no connection: these are the last figures";
  link.className = "lost";
};
