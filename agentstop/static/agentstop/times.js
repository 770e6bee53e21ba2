// Says beside each time how long ago it was, for eyes: the exact time is the text, and its title tells day and zone.
(() => {
  "use strict";
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const EVERY = 10000; // ms
  const TIMES = "time[data-agentstop-time]";
  const now = document.querySelector("[data-agentstop-now]");
  // A reader's clock may be wrong: what counts is the one that the facts were timed by.
  const ahead = now ? Date.now() - Date.parse(now.dataset.agentstopNow) : 0;
  const language = document.documentElement.lang || undefined;
  const spoken = new Intl.RelativeTimeFormat(language, { style: "short" });
  const momentAgo = new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(0, "second"); // "now"
  const MOMENT = 2; // seconds: clocks are not read more closely than a page takes to load
  let soon = 0;

  function ago(time) {
    const seconds = (Date.parse(time.dateTime) - Date.now() + ahead) / 1000;
    if (Math.abs(seconds) < MOMENT) return momentAgo;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
    return spoken.format(Math.trunc(seconds / size), unit);
  }

  function tell() {
    soon = 0;
    document.querySelectorAll(TIMES).forEach((time) => {
      const text = ago(time);
      if (time.dataset.ago !== text) time.dataset.ago = text;
    });
  }

  // What is swapped in comes without it.
  new MutationObserver(() => { soon ||= requestAnimationFrame(tell); }).observe(document.body, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["data-ago", "datetime"],
  });
  setInterval(tell, EVERY);
  tell();
})();
