// An agent on Node 22.18 or newer that asks agentstop before everything it sends. Nothing to install or to compile: it
// uses fetch alone, and Node leaves out the types.
//
//   AGENTSTOP=https://the.site/api AGENTSTOP_TOKEN=agentstop_… PROVIDER=https://mail.example node agent.mts TASK
//
// The token needs the scope `run` and the connector `tools`.

type Told = { reason: string; detail: string; todo: string; operation?: number };

/** A problem that agentstop answered: `reason` is the word to decide by, `message` says what to do. */
export class Problem extends Error {
  readonly reason: string;
  readonly operation?: number;

  constructor(told: Told) {
    super(`${told.detail} ${told.todo}`);
    this.reason = told.reason;
    this.operation = told.operation;
  }
}

/** Thrown by a `send` of yours where the provider said that nothing was done. */
export class Refused extends Error {}

const LONGEST = 2 ** 31 - 1; // milliseconds of a timer

function pause(seconds: number, unless?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      unless?.removeEventListener("abort", go);
      resolve();
    };
    const timer = setTimeout(go, seconds * 1000);
    unless?.addEventListener("abort", go);
    if (unless?.aborted) go();
  });
}

/** What a `send` is given. `signal`: the run is over; `deadline`: nobody waits for its answer any more. */
export type Op = { idempotencyKey: string; signal: AbortSignal; deadline: AbortSignal };
export type How = { key: string; connector: string; send: (op: Op) => Promise<unknown> };
export type Outcome = { got: "accepted" | "failed" | "ignored"; result?: unknown };

type Begun = { task: number; run: number };
type Beat = { over: string | null; renewed: number[] };
type State = { over: string | null; live: boolean; paused: boolean };
/** Leave to send once. In milliseconds of this process: good `until`, renewed for `goodFor`, over when it `ends`. */
type Pass = { operation: number; pass: string; idempotencyKey: string; until: number; goodFor: number; ends: number };
type Asked =
  | { passed: false; got: Outcome["got"]; result?: unknown }
  | { passed: true; operation: number; pass: string; idempotency_key: string; good_for: number; deadline: number };
type Heard = { claim: "unsent" | "succeeded" | "failed" | "lost"; said?: unknown };

export class Run {
  private readonly address: string;
  private readonly token: string;
  private readonly path: string;
  private readonly held = new Map<number, Pass>(); // by operation
  private readonly stop = new AbortController();
  private readonly ended = new AbortController();
  private readonly beating: Promise<void>;

  /** `address`: of the API. */
  static async begin(address: string, token: string, task: number): Promise<Run> {
    const begun = await ask<Begun>(address, token, "POST", `/tasks/${task}/runs`);
    return new Run(address, token, begun);
  }

  private constructor(address: string, token: string, begun: Begun) {
    this.address = address;
    this.token = token;
    this.path = `/tasks/${begun.task}/runs/${begun.run}`;
    this.beating = this.beat();
  }

  /** Aborted the moment this agent hears that its run is over. */
  get signal(): AbortSignal {
    return this.stop.signal;
  }

  private ask<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    return ask<Answer>(this.address, this.token, method, path, body);
  }

  /** Every two seconds: this process lives and holds these passes; the answer tells whether the run is over. */
  private async beat(): Promise<void> {
    while (!this.ended.signal.aborted) {
      const asked = performance.now();
      try {
        const passes = [...this.held.values()].map((each) => each.pass);
        const told = await this.ask<Beat>("POST", `${this.path}/heartbeat`, { passes });
        if (told.over) this.stop.abort(told.over);
        for (const operation of told.renewed) {
          const passed = this.held.get(operation);
          if (passed) passed.until = Math.min(asked + passed.goodFor, passed.ends);
        }
      } catch (error) {
        console.error("No heartbeat:", error); // the passes end by themselves
      }
      await pause(2, this.ended.signal);
    }
  }

  /** Whether to go on: before every model call. */
  async check(): Promise<boolean> {
    const told = await this.ask<State>("GET", this.path);
    if (told.over) this.stop.abort(told.over);
    return told.live && !told.paused;
  }

  /**
   * One external effect: asked for, sent once, its receipt handed in. What was got is "ignored" as soon as the run is
   * over; what was sent goes on to its receipt all the same.
   */
  async call(action: string, args: object, { key, connector, send }: How): Promise<Outcome> {
    const asked = performance.now();
    const told = await this.ask<Asked>("POST", `${this.path}/operations`, { action, args, key, connector });
    if (!told.passed) return { got: told.got, result: told.result };
    const goodFor = told.good_for * 1000;
    const pass: Pass = {
      operation: told.operation,
      pass: told.pass,
      idempotencyKey: told.idempotency_key,
      until: asked + goodFor, // counted from before the question: it errs early
      goodFor,
      ends: asked + told.deadline * 1000,
    };
    this.held.set(pass.operation, pass);
    const receipt = this.carry(pass, send);
    const freed = new Promise<Outcome>((resolve) => {
      const ignore = () => resolve({ got: "ignored" });
      if (this.signal.aborted) ignore();
      this.signal.addEventListener("abort", ignore);
      void receipt.finally(() => this.signal.removeEventListener("abort", ignore)).catch(() => {});
    });
    return Promise.race([receipt, freed]);
  }

  private async carry(pass: Pass, send: How["send"]): Promise<Outcome> {
    const heard = await this.sent(pass, send);
    this.held.delete(pass.operation);
    const told = await this.handIn(pass, heard);
    return { got: told.got ?? "failed", result: told.got === "accepted" ? heard.said : undefined };
  }

  /** Send it, unless this agent has heard of the stop or the pass has ended meanwhile: that is proof of "unsent". */
  private async sent(pass: Pass, send: How["send"]): Promise<Heard> {
    const now = performance.now();
    if (this.signal.aborted || now >= pass.until) return { claim: "unsent" };
    const deadline = AbortSignal.timeout(Math.min(LONGEST, Math.ceil(pass.ends - now)));
    try {
      const op = { idempotencyKey: pass.idempotencyKey, signal: this.signal, deadline };
      return { claim: "succeeded", said: await send(op) };
    } catch (error) {
      return { claim: error instanceof Refused ? "failed" : "lost", said: String(error) }; // an error proves nothing
    }
  }

  /** Until it has arrived: it may be the only proof of what happened. */
  private async handIn(pass: Pass, heard: Heard): Promise<{ got?: Outcome["got"] }> {
    for (let wait = 1; ; wait = Math.min(60, 2 * wait)) {
      try {
        return await this.ask("POST", `/operations/${pass.operation}/receipts`, { pass: pass.pass, ...heard });
      } catch (error) {
        if (error instanceof Problem) throw error;
        await pause(wait);
      }
    }
  }

  /** The agent goes no further: finished, or halted because the run is over. */
  async end(): Promise<void> {
    this.ended.abort();
    await this.beating;
    await this.ask("POST", this.signal.aborted ? `${this.path}/halted` : `${this.path}/finish`);
  }
}

async function ask<Answer>(address: string, token: string, method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(address + path, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
  const told = await response.json();
  if (!response.ok) throw new Problem(told as Told);
  return told as Answer;
}

function named(variable: string): string {
  const value = process.env[variable];
  if (!value) throw new Error(`${variable} is not set. The first lines of this file show what it needs.`);
  return value;
}

/** Send one mail for each address, as long as the run is live. */
async function main(task: number): Promise<void> {
  const run = await Run.begin(named("AGENTSTOP"), named("AGENTSTOP_TOKEN"), task);
  for (const to of ["ann", "ben", "cem"]) {
    const send = async ({ idempotencyKey, deadline }: Op) => {
      const answer = await fetch(named("PROVIDER"), {
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
