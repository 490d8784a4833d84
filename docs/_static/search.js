// Ranks the sections in search_pages.js by a query; see docs/make/search.py. Also runs in node, for the tests.
"use strict";
const GREEK = { "α": "alpha", "β": "beta", "γ": "gamma", "λ": "lambda", "δ": "delta", "σ": "sigma", "χ": "chi" };
const STOP = new Set("a an and are can do does for from have how i in is it my of on or plot the there to use what where which with you".split(" "));
const SAME = { picture: "image", photo: "image", img: "image", colour: "color", optimiser: "optimizer", dim: "dimension", hyperparameter: "setting",
  visualise: "visualize", loos: "loss", metrics: "metric", dataset: "data", sets: "set" };

function words(text) {
  const plain = text.toLowerCase().replace(/[α-ω]/g, c => GREEK[c] ? GREEK[c] + " " : c).normalize("NFKD").replace(/[̀-ͯ]/g, "")
    .replace(/data[\s-]*sets?\b/g, "dataset");
  return (plain.match(/[a-z0-9]+/g) || []).map(word => {
    const single = word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
    return SAME[single] || single;
  });
}

function prepare(pages) {
  const index = pages.map(([name, title, keys, weight, sections]) => ({
    name, title, weight, titleWords: words(title), keys: keys.map(key => words(key).join(" ")),
    sections: sections.map(([anchor, heading, text, sectionKeys]) => {
      const counts = new Map();
      for (const word of words(text)) counts.set(word, (counts.get(word) || 0) + 1);
      return { anchor, heading, text, headingWords: words(heading), counts, keys: (sectionKeys || []).map(key => words(key).join(" ")) };
    }),
  }));
  const frequency = new Map();
  for (const page of index) {
    for (const section of page.sections) page.keys.push(...section.keys);
    const seen = new Set([...page.titleWords, ...page.keys.join(" ").split(" ")]);
    for (const section of page.sections) for (const word of [...section.headingWords, ...section.counts.keys()]) seen.add(word);
    for (const word of seen) frequency.set(word, (frequency.get(word) || 0) + 1);
  }
  return { index, frequency };
}

function within(phrase, list) { return ` ${list.join(" ")} `.includes(` ${phrase} `); }

function rank(prepared, query) {
  const all = words(query), asked = all.filter(word => !STOP.has(word));
  const terms = asked.length ? asked : all;
  if (!terms.length) return [];
  const phrase = terms.join(" "), count = prepared.index.length;
  const meaning = key => key.split(" ").filter(word => !STOP.has(word)).join(" ") || key;
  const asksFor = key => key === all.join(" ") || meaning(key) === phrase;
  const rarity = word => Math.log(1 + count / (1 + (prepared.frequency.get(word) || 0)));
  const found = [];
  for (const page of prepared.index) {
    const keyWords = new Set(page.keys.join(" ").split(" "));
    let matched = 0, score = 0, best = null;
    for (const term of terms) {
      let part = 0;
      if (page.titleWords.includes(term)) part = 8;
      else if (keyWords.has(term)) part = 6;
      for (const section of page.sections) {
        const here = section.headingWords.includes(term) ? 4 : 0;
        part = Math.max(part, here + Math.min(3, Math.log2(1 + (section.counts.get(term) || 0))));
      }
      if (!part && term.length > 3) {
        const begins = word => word.startsWith(term);
        if (page.titleWords.some(begins)) part = 3;
        else if (page.sections.some(s => s.headingWords.some(begins) || [...s.counts.keys()].some(begins))) part = 0.5;
      }
      if (part) matched += 1;
      score += part * rarity(term);
    }
    if (!matched) continue;
    if (page.keys.some(asksFor)) score += 200;
    else if (page.keys.some(key => within(phrase, [key]))) score += 20;
    if (page.titleWords.join(" ") === phrase) score += 60;
    else if (within(phrase, page.titleWords)) score += 15;
    for (const section of page.sections) {
      let own = section.headingWords.join(" ") === phrase ? 30 : within(phrase, section.headingWords) ? 10 : 0;
      for (const term of terms) own += (section.headingWords.includes(term) ? 4 : 0) + Math.min(3, section.counts.get(term) || 0);
      let fit = 2 * own + (section.keys.some(asksFor) ? 500 : 0);  // rare words decide which section of the page is shown
      for (const term of terms) fit += Math.min(3, rarity(term)) * (section.headingWords.includes(term) ? 4 : 0);
      if (!best || fit > best.fit) best = { own: fit >= 500 ? Math.max(own, 1) : own, fit, section };
    }
    if (best) score += Math.min(30, best.own);
    found.push({ page, section: best && best.own > 0 ? best.section : page.sections[0], score: score * page.weight * (matched / terms.length) ** 3 });
  }
  return found.sort((a, b) => b.score - a.score || a.page.name.localeCompare(b.page.name)).slice(0, 30).map(item => ({ ...item, terms }));
}

function snippet(text, terms) {
  const lower = text.toLowerCase();
  const places = terms.map(term => lower.search(new RegExp(`\\b${term}`))).filter(place => place >= 0);
  let start = Math.max(0, Math.min(...(places.length ? places : [0])) - 60), end = start + 220;
  if (start) start = text.indexOf(" ", start) + 1;  // whole words only
  if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), start + 100);
  return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
}

function show(query) {
  const out = document.getElementById("search-results"), found = rank(prepare(window.SEARCH_PAGES), query);
  out.replaceChildren();
  const head = out.appendChild(document.createElement("h2"));
  head.textContent = found.length ? `Results for “${query}”` : `Nothing was found for “${query}”`;
  const list = out.appendChild(document.createElement("ul"));
  list.className = "search";
  for (const { page, section, terms } of found) {
    const item = list.appendChild(document.createElement("li")), link = item.appendChild(document.createElement("a"));
    link.href = `${page.name}.html` + (section && section.anchor ? `#${section.anchor}` : "");
    link.textContent = section && section.anchor ? `${page.title} › ${section.heading}` : page.title;
    const text = item.appendChild(document.createElement("p"));
    text.className = "context";
    for (const piece of snippet(section ? section.text : "", terms).split(new RegExp(`\\b(${terms.join("|")})`, "i"))) {
      const marked = terms.includes(piece.toLowerCase());
      text.appendChild(marked ? document.createElement("mark") : document.createTextNode(piece)).textContent = piece;
    }
  }
}

if (typeof window !== "undefined" && typeof document !== "undefined") {
  const query = new URLSearchParams(window.location.search).get("q") || "";
  document.querySelectorAll('input[name="q"]').forEach(box => { box.value = query; });
  if (query) show(query);
}
if (typeof module !== "undefined") module.exports = { prepare, rank, words, snippet };
