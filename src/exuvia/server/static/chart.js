// Clients' p99 and rows a second on one time axis, states of running jobs as bands behind them.

const KEPT_MS = 15 * 60_000;
const LEAST_MS = 60_000;
const GAP_MS = 5_000;
const LANES = 4;

export class Chart {
  constructor(canvas, said) {
    this.canvas = canvas;
    this.said = said;
    this.samples = [];
    this.frame = 0; // that will draw it
    new ResizeObserver(() => this.soon()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.soon());
  }

  /** It is measured and drawn once a frame, when all else that this frame shows has been changed. */
  soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** A sample: {t, p99, allowed, rate, lanes: [{id, label, state}]}; p99 null where unknown. */
  add(sample) {
    this.samples.push(sample);
    while (this.samples.length && sample.t - this.samples[0].t > KEPT_MS) this.samples.shift();
    this.soon();
  }

  draw() {
    const { canvas, samples } = this;
    const width = canvas.parentElement.clientWidth;
    const height = canvas.parentElement.clientHeight;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const letter = parseFloat(style.fontSize) * 0.8;
    pen.font = `${letter}px ${style.fontFamily}`;
    pen.textBaseline = "middle";

    const now = samples.at(-1)?.t ?? 0;
    const span = Math.max(LEAST_MS, samples.length ? now - samples[0].t : 0);
    const lanes = bandsOf(samples);
    const high = letter * 1.6; // of a lane; they stand above the curves
    const above = letter + (Math.max(-1, ...lanes.map((band) => band.lane)) + 1) * (high + 2);
    const left = letter * 5, right = width - letter * 6, top = above, bottom = height - letter * 1.8;
    const x = (t) => right - ((now - t) / span) * (right - left);
    const mostP99 = nice(top99(samples));
    const mostRate = nice(Math.max(1, ...samples.map((s) => s.rate)));
    const y = (value, most) => bottom - (value / most) * (bottom - top);

    for (const band of lanes) drawBand(pen, band, x, letter, high, top, bottom, colour);
    pen.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      pen.strokeStyle = colour("line");
      const at = Math.round(y(part, 1)) + 0.5;
      line(pen, [[left, at], [right, at]]);
      pen.textAlign = "right";
      pen.fillStyle = colour("p99");
      pen.fillText(`${short(part * mostP99)} ms`, left - 6, at);
      pen.textAlign = "left";
      pen.fillStyle = colour("rate");
      pen.fillText(`${short(part * mostRate)}/s`, right + 6, at);
    }
    pen.fillStyle = colour("soft");
    pen.textAlign = "left";
    pen.fillText(`${clock(span)} ago`, left, bottom + letter);
    pen.textAlign = "right";
    pen.fillText("now", right, bottom + letter);

    const curve = (value, most, name, dashes = []) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = 2;
      pen.setLineDash(dashes);
      pen.save();
      pen.beginPath();
      pen.rect(left, top - 2, right - left + 2, bottom - top + 4);
      pen.clip();
      for (const run of runs(samples, value)) {
        line(pen, run.map((s) => [x(s.t), y(value(s), most)]));
      }
      pen.restore();
      pen.setLineDash([]);
    };
    curve((s) => s.rate, mostRate, "rate");
    curve((s) => s.allowed, mostP99, "allowed", [5, 4]);
    curve((s) => s.p99, mostP99, "p99");
    this.say();
  }

  say() {
    const last = this.samples.at(-1);
    if (!last) return;
    const p99 = last.p99 === null ? "no client transactions" : `p99 ${short(last.p99)} ms`;
    const text = `${p99}, ${short(last.rate)} rows/s`;
    if (this.said.textContent !== text) this.said.textContent = text;
  }
}

/** Colour of a schema state, as the path has it. */
export function stateName(state) {
  if (state.includes("reorg")) return "s-reorg";
  if (state.startsWith("delete")) return "s-delete";
  if (state.startsWith("write")) return "s-write";
  return state === "public" ? "s-public" : "s-none";
}

/** What running jobs did: {id, label, state, begin, end, lane}, a lane a job; jobs that follow one
 *  another share theirs. */
function bandsOf(samples) {
  const bands = [];
  let open = new Map();
  let before = null;
  for (const sample of samples) {
    if (before !== null && sample.t - before > GAP_MS) open = new Map();
    const now = new Map();
    for (const job of sample.lanes.slice(0, LANES)) {
      let band = open.get(job.id);
      if (band) band.end = sample.t;
      if (!band || band.state !== job.state) {
        band = { ...job, begin: sample.t, end: sample.t };
        bands.push(band);
      }
      now.set(job.id, band);
    }
    open = now;
    before = sample.t;
  }
  const ends = []; // of each lane
  const taken = new Map(); // job -> its lane
  for (const band of bands) {
    let lane = taken.get(band.id) ?? ends.findIndex((end) => end <= band.begin);
    if (lane < 0) lane = ends.length;
    taken.set(band.id, lane);
    ends[lane] = Math.max(ends[lane] ?? 0, ...bands.filter((each) => each.id === band.id).map((each) => each.end));
    band.lane = lane;
  }
  return bands;
}

/** A strip with its name where there is room; the first lane's state is seen behind the curves. */
function drawBand(pen, band, x, letter, high, top, bottom, colour) {
  const from = x(band.begin), wide = Math.max(2, x(band.end) - from);
  const at = letter / 2 + band.lane * (high + 2);
  pen.fillStyle = colour(stateName(band.state));
  if (band.lane === 0) {
    pen.globalAlpha = 0.13;
    pen.fillRect(from, top, wide, bottom - top);
    pen.globalAlpha = 1;
  }
  pen.fillRect(from, at, wide, high);
  const texts = [`${band.id} ${band.label}: ${band.state}`, `${band.id} ${band.state}`, `${band.id}`];
  const fits = texts.find((text) => pen.measureText(text).width < wide - 8);
  if (fits) {
    pen.fillStyle = colour("card");
    pen.textAlign = "left";
    pen.fillText(fits, from + 4, at + high / 2);
  }
}

/** Where p99's axis ends: a few outliers leave the picture, what is held is always in it. */
function top99(samples) {
  const known = samples.map((s) => s.p99).filter((each) => each !== null).sort((a, b) => a - b);
  const most = known[Math.floor(known.length * 0.9)] ?? 0;
  return Math.max(1, 1.3 * most, 1.3 * Math.max(0, ...samples.map((s) => s.allowed ?? 0)));
}

function* runs(samples, value) {
  let run = [];
  for (const sample of samples) {
    const known = value(sample) !== null && value(sample) !== undefined;
    if (run.length && (!known || sample.t - run.at(-1).t > GAP_MS)) {
      yield run;
      run = [];
    }
    if (known) run.push(sample);
  }
  if (run.length) yield run;
}

function line(pen, points) {
  pen.beginPath();
  if (points.length === 1) points = [points[0], [points[0][0] + 1, points[0][1]]];
  points.forEach(([px, py], n) => (n ? pen.lineTo(px, py) : pen.moveTo(px, py)));
  pen.stroke();
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

/** 1234567 as 1.23M. */
export function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+value.toPrecision(3)}`;
}

function clock(ms) {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
