// The live page: takes a snapshot a second from /events, and draws the last minutes.
//
//   events ──> samples ──> figures, charts, table
//   a saved file has its samples in the element #saved, and asks nobody
"use strict";
(() => {
  const KEPT = 900; // seconds
  const samples = [];
  const tracks = new Map(); // name of a file -> places over time
  let paused = false;
  const byId = (id) => document.getElementById(id);

  // ---- texts -------------------------------------------------------------------------------
  const scaled = (value, units, step) => {
    let at = 0;
    while (value >= step && at < units.length - 1) { value /= step; at += 1; }
    return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
  };
  const speed = (rate) => scaled(rate, ["B/s", "kB/s", "MB/s", "GB/s"], 1000);
  const size = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  const time = (us) => us < 1000 ? `${us} us` : us < 1e7 ? `${Math.round(us / 1000)} ms` : `${Math.round(us / 1e6)} s`;
  const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(part < whole / 10 ? 1 : 0)} %` : "-";
  const count = (value) => value > 0 && value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");

  // ---- samples -----------------------------------------------------------------------------
  const add = (snapshot) => {
    const last = samples.at(-1);
    const seconds = last ? Math.max((snapshot.at_ms - last.at_ms) / 1000, 0.001) : 0;
    const { stats, streams } = snapshot;
    const since = (get) => last ? Math.max(get(stats) - get(last.stats), 0) / seconds : 0;
    const other = (s) => s.memory_directories_bytes + s.memory_names_bytes + (s.cache?.memory_bytes ?? 0);
    samples.push({
      ...snapshot,
      read: since((s) => s.read_bytes),
      fetched: since((s) => s.fetched_bytes),
      cached: since((s) => s.cache?.read_bytes ?? 0),
      requests: since((s) => s.requests),
      reads: since((s) => s.reads),
      waiting: since((s) => s.reads - s.hits),
      parts: [stats.memory_read_bytes, stats.memory_ahead_bytes, other(stats)],
      streams: [],
    });
    if (samples.length > KEPT) samples.shift();
    for (const stream of streams) {
      const track = tracks.get(stream.key) ?? { size: stream.size_bytes, places: [] };
      track.places.push({ at_ms: snapshot.at_ms, read: stream.position_bytes, ahead: stream.planned_bytes });
      if (track.places.length > 2 * KEPT) track.places.shift();
      tracks.delete(stream.key);
      tracks.set(stream.key, track);
    }
    if (tracks.size > 64) tracks.delete(tracks.keys().next().value);
    samples.at(-1).live = { streams, more: snapshot.more_streams };
    if (last) last.live = null;
  };

  // ---- figures and table -------------------------------------------------------------------
  const figures = (sample) => {
    const { stats, link } = sample;
    const { waited } = stats;
    const crowded = link.is_crowded ? ", crowded" : link.is_growing ? ", may carry more" : "";
    const rows = [
      ["to programs", `${speed(sample.read)}, ${count(sample.reads)} reads/s, ${percent(sample.reads - sample.waiting, sample.reads)} from memory`],
      ["from the storage", `${speed(sample.fetched)}, ${count(sample.requests)} requests/s`],
      ["waits so far", `half within ${time(waited.p50_us)}, 99 % within ${time(waited.p99_us)}, all within ${time(waited.max_us)}; ${stats.slow_reads} slow`],
      ["in vain", `${percent(stats.wasted_bytes, stats.fetched_bytes)} of what came was not read, ${percent(stats.thrashed_bytes, stats.fetched_bytes)} for want of memory`],
      ["memory", `${size(stats.memory_charged_bytes)} of ${size(stats.memory_budget_bytes)}, ${size(stats.memory_pending_bytes)} requested`],
      ["link", link.first_byte_us ? `${time(link.first_byte_us)} to a first byte, ${speed(link.connection_bytes_per_s)} a request, ${speed(link.bytes_per_s)} in all; ${link.requests} of ${link.requests_max} requests${crowded}` : "not known yet"],
    ];
    const cache = stats.cache;
    if (cache) rows.push(["cache", `${speed(sample.cached)}, ${size(cache.kept_bytes)} kept, ${size(cache.dropped_bytes)} dropped`]);
    const troubles = [[stats.read_errors, "reads failed"], [stats.retries, "requests were made again"],
      [stats.panics, "panics"], [cache?.wrong, "damaged pieces of the cache"], [cache?.silences, "silences of its disk"]];
    const told = troubles.filter(([number]) => number > 0).map(([number, what]) => `${number} ${what}`);
    if (told.length) rows.push(["trouble", told.join(", "), true]);
    return rows;
  };

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  const show = (sample) => {
    byId("now").replaceChildren(...figures(sample).flatMap(([name, text, trouble]) =>
      [element("dt", name), element("dd", text, trouble ? "trouble" : "")]));
    const { streams, more } = sample.live;
    byId("streams").replaceChildren(...streams.map((stream) => {
      const row = document.createElement("tr");
      const backward = stream.delta_bytes < 0 && -stream.delta_bytes === stream.record_bytes;
      row.append(...[
        stream.key, backward ? "backward" : stream.shape, percent(stream.position_bytes, stream.size_bytes),
        size(stream.window_bytes), stream.bound, stream.bytes_per_s ? speed(stream.bytes_per_s) : "-",
        String(stream.late_reads), time(stream.idle_ms * 1000),
      ].map((text) => element("td", text)));
      return row;
    }));
    byId("more").textContent = more > 0 ? `${more} more streams` : streams.length ? "" : "No reads form a stream just now.";
    const chosen = byId("file").value;
    const names = [...tracks.keys()].reverse();
    byId("file").replaceChildren(...names.map((name) => {
      const option = element("option", name);
      option.value = name;
      option.selected = name === chosen;
      return option;
    }));
  };

  // ---- charts ------------------------------------------------------------------------------
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The time that is shown: as much as was chosen, or as there is.
  const shown = () => {
    const chosen = Number(byId("span").value) * 1000;
    return Math.min(chosen, Math.max(samples.at(-1).at_ms - samples[0].at_ms, 30000));
  };

  const chart = (id, low, top, text) => {
    const canvas = byId(id);
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    const [left, bottom] = [64, height - 18];
    const span = shown();
    const now = samples.at(-1).at_ms;
    const x = (at) => width - (now - at) / span * (width - left);
    const y = (value) => bottom - (value - low) / Math.max(top - low, 1e-9) * (bottom - 8);
    pen.fillStyle = colour("--faint");
    pen.strokeStyle = colour("--line");
    for (const part of [0, 0.5, 1]) {
      pen.beginPath();
      const value = low + (top - low) * part;
      pen.moveTo(left, y(value));
      pen.lineTo(width, y(value));
      pen.stroke();
      pen.fillText(text(value), 0, y(value) + 4);
    }
    pen.fillText(span < 60000 ? `-${Math.round(span / 1000)} s` : `-${Math.round(span / 60000)} min`, left, height - 4);
    pen.textAlign = "right";
    pen.fillText("now", width, height - 4);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, height);
    pen.clip();
    return { pen, x, y, from: now - span, canvas };
  };

  const line = ({ pen, x, y }, points, name) => {
    pen.strokeStyle = colour(name);
    pen.lineWidth = 2;
    pen.beginPath();
    points.forEach(([at, value], nth) => nth ? pen.lineTo(x(at), y(value)) : pen.moveTo(x(at), y(value)));
    pen.stroke();
  };

  const band = ({ pen, x, y }, points, name) => {
    pen.fillStyle = colour(name);
    pen.beginPath();
    points.forEach(([at, low], nth) => nth ? pen.lineTo(x(at), y(low)) : pen.moveTo(x(at), y(low)));
    [...points].reverse().forEach(([at, , high]) => pen.lineTo(x(at), y(high)));
    pen.closePath();
    pen.fill();
  };

  const most = (values, least) => values.reduce((most, value) => Math.max(most, value), least);

  const draw = () => {
    const sample = samples.at(-1);
    if (!sample) return;
    const from = sample.at_ms - shown();
    const seen = samples.filter((one) => one.at_ms >= from);

    const rate = chart("rate", 0, most(seen.flatMap((s) => [s.read, s.fetched, s.cached]), 1000), speed);
    line(rate, seen.map((s) => [s.at_ms, s.cached]), "--three");
    line(rate, seen.map((s) => [s.at_ms, s.fetched]), "--two");
    line(rate, seen.map((s) => [s.at_ms, s.read]), "--one");
    rate.canvas.ariaLabel = `Throughput: ${speed(sample.read)} to programs, ${speed(sample.fetched)} from the storage`;

    const wait = chart("wait", 0, most(seen.map((s) => s.reads), 1), count);
    line(wait, seen.map((s) => [s.at_ms, s.reads]), "--one");
    line(wait, seen.map((s) => [s.at_ms, s.waiting]), "--two");
    wait.canvas.ariaLabel = `${count(sample.reads)} reads a second, ${count(sample.waiting)} of them not from memory`;

    const budget = sample.stats.memory_budget_bytes;
    const memory = chart("memory", 0, most(seen.map((s) => s.parts.reduce((a, b) => a + b, 0)), budget), size);
    ["--one", "--two", "--three"].forEach((name, nth) => {
      const below = (s, until) => s.parts.slice(0, until).reduce((a, b) => a + b, 0);
      band(memory, seen.map((s) => [s.at_ms, below(s, nth), below(s, nth + 1)]), name);
    });
    memory.canvas.ariaLabel = `Memory: ${size(sample.stats.memory_charged_bytes)} of ${size(budget)}`;

    const track = tracks.get(byId("file").value);
    const places = track ? track.places.filter((place) => place.at_ms >= from) : [];
    const ends = places.flatMap((p) => [p.read, p.ahead]);
    const low = ends.reduce((least, end) => Math.min(least, end), ends[0] ?? 0);
    const offset = chart("offset", low, most(ends, low + 1048576), size);
    // A file may have several readers: each has a bar of its own in each second.
    const width = Math.max(offset.x(1000) - offset.x(0), 2);
    for (const { at_ms, read, ahead } of places) {
      const [top, bottom] = [offset.y(Math.max(read, ahead)), offset.y(Math.min(read, ahead))];
      offset.pen.fillStyle = colour("--two");
      offset.pen.fillRect(offset.x(at_ms) - width, top, width, Math.max(bottom - top, 1));
      offset.pen.fillStyle = colour("--one");
      offset.pen.fillRect(offset.x(at_ms) - width, offset.y(read) - 1.5, width, 3);
    }
    const place = places.at(-1);
    offset.canvas.ariaLabel = place
      ? `${byId("file").value} is read at ${size(place.read)} of ${size(track.size)}, and asked for up to ${size(place.ahead)}`
      : "No file is read as a stream";
  };

  const refresh = () => { show(samples.at(-1)); draw(); };

  // ---- saving ------------------------------------------------------------------------------
  const save = async () => {
    const query = location.search;
    const [style, script] = await Promise.all(["page.css", "page.js"].map(async (name) => (await fetch(name + query)).text()));
    const data = { title: byId("title").textContent, samples, tracks: [...tracks] };
    const copy = document.documentElement.cloneNode(true);
    copy.querySelector("link").replaceWith(element("style", style));
    const old = copy.querySelector("script");
    const saved = element("script", JSON.stringify(data).replaceAll("<", "\\u003c"));
    saved.type = "application/json";
    saved.id = "saved";
    old.replaceWith(saved, element("script", script));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`<!doctype html>\n${copy.outerHTML}`], { type: "text/html" }));
    link.download = `foreread-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.html`;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // ---- start -------------------------------------------------------------------------------
  const state = (text, trouble) => {
    byId("state").textContent = text;
    byId("state").className = trouble ? "trouble" : "";
  };

  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Go on" : "Pause";
    state(paused ? "paused" : "live");
  });
  byId("span").addEventListener("change", draw);
  byId("file").addEventListener("change", draw);
  byId("save").addEventListener("click", () => save().catch((error) => state(`not saved: ${error.message}`, true)));
  addEventListener("resize", draw);

  const saved = byId("saved");
  if (saved) {
    const data = JSON.parse(saved.textContent);
    samples.push(...data.samples);
    data.tracks.forEach(([name, track]) => tracks.set(name, track));
    byId("pause").hidden = byId("save").hidden = true;
    state(`saved ${new Date(samples.at(-1)?.at_ms ?? 0).toLocaleString()}`);
    if (samples.length) refresh();
    return;
  }
  const events = new EventSource("events" + location.search);
  events.addEventListener("open", () => { if (!paused) state("live"); });
  events.addEventListener("error", () => state("no connection: the mount has ended, or this page is one of too many", true));
  events.addEventListener("message", (event) => {
    if (paused) return;
    add(JSON.parse(event.data));
    state("live");
    refresh();
  });
})();
