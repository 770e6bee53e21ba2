// Carries panels, Stop buttons and lists: presses go out by fetch; what has changed comes in by a websocket, or by asking
// every few seconds where there is none. It needs no other script, and keeps what is in them from those of the page.
(() => {
  "use strict";
  const PATIENCE = 2000; // ms that a socket may be down before a person is told: a reconnect is usually quicker
  const SILENCE = 25000; // ms without a frame after which a socket is dead: the server sends one every ten seconds
  const EVERY = 5000; // ms between two questions where there is no socket
  const SOONEST = 500, LATEST = 10000; // ms before a socket is tried again
  const SELDOM = 60000; // the same where none has ever opened: this site may have none
  const ROOT = "[data-agentstop]";
  const ASKED_BY = "Agentstop-Request"; // the header by which the server knows a press of this script
  const carriers = new Map();
  const trusted = window.trustedTypes?.createPolicy("agentstop", { createHTML: (html) => html });

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = trusted ? trusted.createHTML(html) : html;
    return [...template.content.children];
  }

  const withIds = (element) => [...element.querySelectorAll("[id]")];

  // Makes `old` equal to `now`. Nodes stay, those with an id also where they move, and with them the focus and what is
  // typed.
  function morph(old, now) {
    const change = {
      there: new Map(withIds(old).map((each) => [each.id, each])),
      wanted: new Set(withIds(now).map((each) => each.id)),
      kept: new Set(),
      left: [], // removed at the end: what has an id may be wanted elsewhere until then
    };
    become(old, now, change);
    change.left.forEach((node) => change.kept.has(node) || node.remove());
  }

  function become(old, now, change) {
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) return old.replaceWith(now);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== now.data) old.data = now.data;
      return;
    }
    const opened = old.nodeName === "DETAILS" && old.open; // by the reader
    for (const name of old.getAttributeNames()) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (opened) old.open = true;
    becomeInside(old, now, change);
  }

  function becomeInside(old, now, change) {
    const { there, wanted, left } = change;
    let at = old.firstChild;
    const leave = () => { left.push(at); at = at.nextSibling; };
    for (const child of [...now.childNodes]) {
      while (at?.id && !wanted.has(at.id)) leave();
      const alike = at && !at.id && at.nodeName === child.nodeName ? at : null;
      const same = child.id ? there.get(child.id) : alike;
      if (same && same === at) at = at.nextSibling;
      if (same) keep(old, same, at, child, change);
      else bringIn(old, child, at, change);
    }
    while (at) leave();
  }

  function keep(parent, node, before, now, change) {
    change.there.delete(node.id);
    change.kept.add(node);
    if (node.parentNode !== parent || node.nextSibling !== before) {
      if (parent.moveBefore) parent.moveBefore(node, before); // without losing the focus
      else parent.insertBefore(node, before);
    }
    become(node, now, change);
  }

  function bringIn(parent, child, before, change) {
    parent.insertBefore(child, before);
    if (child.nodeType !== Node.ELEMENT_NODE) return;
    for (const each of withIds(child)) {
      const node = change.there.get(each.id);
      if (!node || !child.contains(each)) continue;
      const place = each.parentNode, next = each.nextSibling;
      each.remove();
      keep(place, node, next, each, change);
    }
  }

  function put(root, piece) {
    const [how, where] = (piece.dataset.agentstopSwap ?? "morph").split(":#");
    piece.removeAttribute("data-agentstop-swap");
    const old = root.querySelector(`#${CSS.escape(where ?? piece.id)}`);
    if (!old) return;
    if (how === "append") old.append(...piece.childNodes);
    else if (how === "delete") old.remove();
    else morph(old, piece);
  }

  // What is shown, by kind and id: "operation:7" is "sending".
  function facts(root) {
    const shown = [...root.querySelectorAll("[data-agentstop-fact]")];
    return new Map(shown.map((each) => [each.dataset.agentstopFact, each.dataset.agentstopState]));
  }

  function tell(root, name, detail, cancelable = false) {
    return root.dispatchEvent(new CustomEvent(`agentstop:${name}`, { bubbles: true, cancelable, detail }));
  }

  function show(root, html) {
    const before = facts(root);
    const pieces = parsed(html);
    pieces.forEach((piece) => put(root, piece));
    for (const [fact, state] of facts(root)) {
      if (before.get(fact) === state) continue;
      const [kind, id] = fact.split(":");
      tell(root, kind, { id: Number(id), state, before: before.get(fact) ?? null });
    }
    return pieces.length > 0;
  }

  function lost(root, kind) {
    const sign = root.querySelector("[data-agentstop-lost]");
    if (sign) sign.textContent = kind ? sign.dataset[kind] : "";
  }

  class Carrier {
    constructor(root) {
      this.root = root;
      this.wait = SOONEST;
      this.over = this.opened = false;
      const sign = root.querySelector("[data-agentstop-mark]");
      if (sign) sign.textContent = ""; // it said so for readers without scripts; now it says so if nothing comes
      this.mark("asleep");
      if (!document.hidden) this.wake();
    }

    get address() {
      return this.root.dataset.agentstopSocket;
    }

    mark(state) {
      clearTimeout(this.soon);
      this.soon = null;
      const before = this.root.dataset.live;
      this.root.dataset.live = state;
      const sign = this.root.querySelector("[data-agentstop-mark]");
      const text = sign?.dataset[state] ?? "";
      if (sign && state !== "asleep" && sign.textContent !== text) sign.textContent = text;
      if (before !== state) tell(this.root, "live", { state, before: before ?? null });
    }

    tellSoon() {
      this.soon ??= setTimeout(() => this.mark("down"), PATIENCE);
    }

    wake() {
      if (this.over) return;
      this.tellSoon();
      if (this.address) this.open();
      else this.ask();
    }

    sleep() {
      this.drop();
      clearTimeout(this.later);
      clearTimeout(this.asking);
      if (!this.over) this.mark("asleep");
    }

    // Of a socket that is let go nothing is heard any more: the network may be gone, and its end come late.
    drop() {
      const socket = this.socket;
      this.socket = null;
      if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
      socket?.close();
    }

    open() {
      clearTimeout(this.later);
      this.drop();
      this.heard = Date.now();
      this.socket = new WebSocket(new URL(this.address, location.href.replace(/^http/, "ws")));
      this.socket.onopen = () => { this.opened = true; };
      this.socket.onmessage = (event) => {
        const known = this.root.dataset.live === "on"; // from then on a sign of life is enough
        if (!show(this.root, event.data) && !known) return;
        this.heard = Date.now();
        this.wait = SOONEST;
        clearTimeout(this.asking);
        if (!known) this.mark("on");
      };
      this.socket.onclose = (event) => this.closed(event.code);
    }

    closed(code) {
      this.socket = null;
      if (code >= 4000 || code === 1008) return this.end();
      this.wait = Math.min(this.wait * 1.7, this.opened ? LATEST : SELDOM);
      this.later = setTimeout(() => this.open(), this.wait);
      if (!this.opened && this.wait > 2 * SOONEST) this.ask();
      else {
        if (this.root.dataset.live === "on") this.mark("asleep");
        this.tellSoon();
      }
    }

    end() {
      this.over = true;
      this.drop();
      clearTimeout(this.later);
      clearTimeout(this.asking);
      this.mark("over");
    }

    // Where there is no socket.
    async ask() {
      clearTimeout(this.asking);
      const { agentstop: kind, agentstopPoll: address } = this.root.dataset;
      let answer = null;
      try {
        answer = await fetch(address, { headers: { [ASKED_BY]: kind } });
        const html = await answer.text();
        if (this.over || !this.root.isConnected || document.hidden || this.root.dataset.live === "on") return;
        if (answer.redirected || [401, 403, 404].includes(answer.status)) return this.end();
        if (!answer.ok) throw new Error(answer.statusText);
        show(this.root, html);
        this.mark("polling");
      } catch {
        if (this.root.dataset.live !== "down") this.tellSoon();
      }
      this.asking = setTimeout(() => this.ask(), EVERY);
    }

    mind() {
      if (!this.socket || Date.now() - this.heard < SILENCE) return;
      this.mark("down"); // the machine has slept, or its network is gone: such a socket does not close by itself
      this.open();
    }
  }

  async function press(root, form, submitter) {
    const address = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
    if (!tell(root, "press", { address }, true)) return;
    lost(root, "");
    let answer = null;
    try {
      const body = new URLSearchParams(new FormData(form, submitter));
      answer = await fetch(address, { method: "POST", body, headers: { [ASKED_BY]: root.dataset.agentstop } });
      const html = await answer.text();
      if (answer.ok && !answer.redirected) {
        show(root, html);
        if (form.matches("[data-agentstop-add]")) form.reset(); // it is kept: type the next one
      } else {
        const login = answer.headers.get("Agentstop-Location");
        if (login) location.assign(login);
        else lost(root, answer.status < 500 ? "refused" : "lost");
      }
    } catch {
      lost(root, "lost");
    }
    tell(root, "pressed", { address, status: answer?.status ?? 0 });
  }

  // Before any other script of the page: one that sends forms by itself would press a second time.
  document.addEventListener("submit", (event) => {
    const root = event.target.closest?.(ROOT);
    if (!root) return;
    event.stopImmediatePropagation();
    if (!event.target.matches("[data-agentstop-press]")) return; // as the browser does it: to a page of its own
    event.preventDefault();
    press(root, event.target, event.submitter);
  }, true);

  document.addEventListener("visibilitychange", () => {
    carriers.forEach((carrier) => (document.hidden ? carrier.sleep() : carrier.wake()));
  });

  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // out of the browser's store, where its socket was closed for good
  });

  function scan() {
    carriers.forEach((carrier, root) => {
      if (root.isConnected) return;
      carriers.delete(root);
      carrier.sleep();
      carrier.over = true;
    });
    for (const root of document.querySelectorAll(`${ROOT}[data-agentstop-poll]`)) {
      if (!carriers.has(root)) carriers.set(root, new Carrier(root));
    }
  }

  new MutationObserver(scan).observe(document.documentElement, { childList: true, subtree: true });
  setInterval(() => carriers.forEach((carrier) => carrier.mind()), EVERY);
  scan();
})();
