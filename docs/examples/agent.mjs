// An agent on Node 20 or newer that asks agentstop before everything it sends. Nothing to install: it uses fetch alone.
//
//   AGENTSTOP=https://the.site/api AGENTSTOP_TOKEN=agentstop_… PROVIDER=https://mail.example node agent.mjs TASK
//
// The token needs the scope `run` and the connector `tools`.

/** A problem that agentstop answered: `reason` is the word to decide by, `message` says what to do. */
export class Problem extends Error {
  /** @param {{reason: string, detail: string, todo: string, operation?: number}} told */
  constructor(told) {
    super(`${told.detail} ${told.todo}`);
    this.reason = told.reason;
    this.operation = told.operation;
  }
}

/** Thrown by a `send` of yours where the provider said that nothing was done. */
export class Refused extends Error {}

const LONGEST = 2 ** 31 - 1; // milliseconds of a timer
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

export class Run {
  /** @param {string} address of the API  @param {string} token  @param {number} task */
  static async begin(address, token, task) {
    const run = new Run(address, token);
    const begun = await run.ask("POST", `/tasks/${task}/runs`);
    run.path = `/tasks/${begun.task}/runs/${begun.run}`;
    run.beating = run.beat();
    return run;
  }

  constructor(address, token) {
    this.address = address;
    this.token = token;
    this.held = new Map(); // passes by operation
    this.stop = new AbortController();
    this.ended = new AbortController();
  }

  /** Aborted the moment this agent hears that its run is over. */
  get signal() {
    return this.stop.signal;
  }

  async ask(method, path, body) {
    const response = await fetch(this.address + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    const told = await response.json();
    if (!response.ok) throw new Problem(told);
    return told;
  }

  /** Every two seconds: this process lives and holds these passes; the answer tells whether the run is over. */
  async beat() {
    while (!this.ended.signal.aborted) {
      const asked = performance.now();
      try {
        const told = await this.ask("POST", `${this.path}/heartbeat`, { passes: [...this.held.values()].map((each) => each.pass) });
        if (told.over) this.stop.abort(told.over);
        for (const operation of told.renewed) {
          const passed = this.held.get(operation);
          if (passed) passed.until = Math.min(asked + passed.good_for * 1000, passed.ends);
        }
      } catch (error) {
        console.error(`No heartbeat: ${error.message}`); // the passes end by themselves
      }
      await Promise.race([pause(2), new Promise((done) => this.ended.signal.addEventListener("abort", done))]);
    }
  }

  /** Whether to go on: before every model call. */
  async check() {
    const told = await this.ask("GET", this.path);
    if (told.over) this.stop.abort(told.over);
    return told.live && !told.paused;
  }

  /**
   * One external effect: asked for, sent once, its receipt handed in. Answers `{got, result}`: "accepted", "failed", or
   * "ignored" as soon as the run is over; what was sent goes on to its receipt all the same.
   *
   * @param {string} action
   * @param {object} args
   * `send` is given two signals: `signal`, that the run is over, and `deadline`, that nobody waits for its answer any more.
   *
   * @typedef {{idempotencyKey: string, signal: AbortSignal, deadline: AbortSignal}} Op
   * @param {{key: string, connector: string, send: (op: Op) => Promise<any>}} how
   */
  async call(action, args, { key, connector, send }) {
    const asked = performance.now();
    const passed = await this.ask("POST", `${this.path}/operations`, { action, args, key, connector });
    if (!passed.passed) return { got: passed.got, result: passed.result };
    passed.until = asked + passed.good_for * 1000; // counted from before the question: it errs early
    passed.ends = asked + passed.deadline * 1000;
    this.held.set(passed.operation, passed);
    const receipt = this.carry(passed, send);
    const freed = new Promise((resolve) => {
      const ignore = () => resolve({ got: "ignored" });
      if (this.signal.aborted) ignore();
      this.signal.addEventListener("abort", ignore);
    });
    return Promise.race([receipt, freed]);
  }

  async carry(passed, send) {
    const heard = await this.sent(passed, send);
    this.held.delete(passed.operation);
    const told = await this.handIn(passed, heard);
    return { got: told.got ?? "failed", result: told.got === "accepted" ? heard.said : undefined };
  }

  /** Send it, unless this agent has heard of the stop or the pass has ended meanwhile: that is proof of "unsent". */
  async sent(passed, send) {
    const now = performance.now();
    if (this.signal.aborted || now >= passed.until) return { claim: "unsent" };
    const deadline = AbortSignal.timeout(Math.min(LONGEST, Math.ceil(passed.ends - now)));
    try {
      const op = { idempotencyKey: passed.idempotency_key, signal: this.signal, deadline };
      return { claim: "succeeded", said: await send(op) };
    } catch (error) {
      return { claim: error instanceof Refused ? "failed" : "lost", said: String(error) }; // an error proves nothing
    }
  }

  /** Until it has arrived: it may be the only proof of what happened. */
  async handIn(passed, heard) {
    for (let wait = 1; ; wait = Math.min(60, 2 * wait)) {
      try {
        return await this.ask("POST", `/operations/${passed.operation}/receipts`, { pass: passed.pass, ...heard });
      } catch (error) {
        if (error instanceof Problem) throw error;
        await pause(wait);
      }
    }
  }

  /** The agent goes no further: finished, or halted because the run is over. */
  async end() {
    this.ended.abort();
    await this.beating;
    return this.ask("POST", this.signal.aborted ? `${this.path}/halted` : `${this.path}/finish`);
  }
}

/** Send one mail for each address, as long as the run is live. */
async function main(task) {
  const run = await Run.begin(process.env.AGENTSTOP, process.env.AGENTSTOP_TOKEN, task);
  for (const to of ["ann", "ben", "cem"]) {
    const send = async ({ idempotencyKey, deadline }) => {
      const answer = await fetch(process.env.PROVIDER, {
        method: "POST",
        headers: { "Idempotency-Key": idempotencyKey },
        body: to,
        signal: deadline,
      });
      if (answer.status === 422) throw new Refused(await answer.text());
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      return answer.text();
    };
    try {
      const { got, result } = await run.call("mail.send", { to }, { key: `mail:${to}`, connector: "tools", send });
      console.log(to, got, result ?? "");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      console.log(to, "not sent:", error.reason);
    }
  }
  await run.end();
}

if (import.meta.url === `file://${process.argv[1]}`) await main(Number(process.argv[2]));
