// Tells on each panel whether it is live, and when a press was lost. Swapping and the socket are the carrier's.
(() => {
  "use strict";
  const PATIENCE = 2000; // ms that a socket may be down before a person is told: a reconnect is usually quicker
  const SILENCE = 25000; // ms without a frame after which a socket is dead: the server sends one every ten seconds
  const waiting = new WeakMap();
  const heard = new Map(); // panel: when a frame last came, and over which connection
  const panelOf = (event) => event.target.closest?.("[data-agentstop]");

  function mark(panel, state) {
    clearTimeout(waiting.get(panel));
    panel.dataset.live = state;
    const sign = panel.querySelector("[data-agentstop-mark]");
    if (sign) sign.textContent = state === "on" ? "" : sign.dataset[state];
  }

  function tellSoon(panel) {
    clearTimeout(waiting.get(panel));
    waiting.set(panel, setTimeout(() => mark(panel, "down"), PATIENCE));
  }

  function lost(panel, kind) {
    const sign = panel.querySelector("[data-agentstop-lost]");
    if (sign) sign.textContent = kind ? sign.dataset[kind] : "";
  }

  document.querySelectorAll("[data-agentstop][hx-ws\\:connect]").forEach((panel) => {
    const sign = panel.querySelector("[data-agentstop-mark]");
    if (sign) sign.textContent = ""; // it said so for readers without scripts; now it says so if no socket opens
    tellSoon(panel);
  });

  document.addEventListener("htmx:ws:after:connection", (event) => {
    const panel = panelOf(event);
    if (!panel) return;
    heard.set(panel, { at: Date.now(), connection: event.detail.connection });
    mark(panel, "on");
  });

  document.addEventListener("htmx:ws:before:message:incoming", (event) => {
    const panel = panelOf(event);
    if (heard.has(panel)) heard.get(panel).at = Date.now();
  });

  setInterval(() => {
    heard.forEach(({ at, connection }, panel) => {
      if (!panel.isConnected) return heard.delete(panel);
      if (panel.dataset.live !== "on" || Date.now() - at < SILENCE) return;
      mark(panel, "down"); // the machine has slept, or its network is gone: such a socket does not close by itself
      connection.socket?.close(); // and the carrier opens another one
    });
  }, 5000);

  document.addEventListener("htmx:ws:close", (event) => {
    const panel = panelOf(event);
    if (!panel || event.detail.reason === "removed") return;
    if (event.detail.code >= 4000 || event.detail.code === 1008) return mark(panel, "over");
    panel.dataset.live = "asleep";
    if (!document.hidden) tellSoon(panel); // a hidden page closes its socket itself
  });

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) document.querySelectorAll("[data-live=asleep]").forEach(tellSoon);
  });

  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // out of the browser's store, where its socket was closed for good
  });

  document.addEventListener("htmx:before:request", (event) => {
    const panel = panelOf(event);
    if (panel) lost(panel, "");
  });

  document.addEventListener("htmx:after:swap", (event) => {
    if (!event.target.matches?.("[data-agentstop-add]") || event.detail.ctx.response.status >= 400) return;
    event.target.reset(); // it is kept: type the next one
  });

  document.addEventListener("htmx:response:error", (event) => {
    const panel = panelOf(event);
    if (panel) lost(panel, event.detail.ctx.response.status < 500 ? "refused" : "lost");
  });

  document.addEventListener("htmx:error", (event) => {
    const panel = panelOf(event);
    if (panel && event.detail.ctx) lost(panel, "lost");
  });
})();
