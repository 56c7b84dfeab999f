/* The site's search. Sphinx drops words of digits from a query: codes of errors stay here (the
   index has them: conf.py). Sphinx gives a page one of three scores. Here its title and its best
   heading count by the words that they share with the query. Decisions are last; pages of errors
   come after others unless the query is a code. */
if (typeof Search !== "undefined") {
  const TITLE = 30, HEADING = 25, ERROR = -10, DECISION = -1000;
  const parse = Search._parseQuery;
  const stemmer = new Stemmer();
  const words = (text) => new Set(splitQuery(text.toLowerCase())
    .filter((word) => !stopwords.has(word) && !/^\d{1,3}$/.test(word)).map((word) => stemmer.stemWord(word)));
  let query = "", queryWords = new Set();
  Search._parseQuery = (text) => {
    const parsed = parse(text);
    query = text.trim().toLowerCase();
    queryWords = words(query);
    for (const term of splitQuery(query)) {
      if (/^\d{4}$/.test(term)) {
        parsed[1].add(term);
        parsed[3].add(term);
      }
    }
    return parsed;
  };

  /** What a word says about a page: more, the fewer pages have it. */
  const weight = (word) => {
    const pages = Object.hasOwn(Search._index.terms, word) ? [Search._index.terms[word]].flat() : [];
    return Math.log(1 + Search._index.docnames.length / (pages.length || 1));
  };
  const total = (list) => [...list].reduce((sum, word) => sum + weight(word), 0);
  /** From 0 to 1 (F2): the share of the query's words, by weight, that a heading has, and less so
   *  the share of its own words that are in the query. */
  const likeness = (heading) => {
    const shared = [...heading].filter((word) => queryWords.has(word));
    if (!shared.length) return 0;
    const recall = total(shared) / total(queryWords), precision = shared.length / heading.size;
    return (5 * recall * precision) / (recall + 4 * precision);
  };
  let headings = null; // page -> the words of each of its headings
  const headingsOf = (page) => {
    if (headings === null) {
      headings = new Map(Search._index.docnames.map((name) => [name, []]));
      for (const [text, places] of Object.entries(Search._index.alltitles)) {
        for (const [file] of places) headings.get(Search._index.docnames[file]).push(words(text));
      }
    }
    return headings.get(page);
  };
  Scorer.score = ([page, title, , , score]) => {
    const own = likeness(words(title.split(" > ")[0]));
    score += Math.max(TITLE * own, HEADING * Math.max(0, ...headingsOf(page).map(likeness)));
    if (page.startsWith("decisions/")) score += DECISION;
    if (page.startsWith("reference/errors/") && !/\d{4}|^err/.test(query)) score += ERROR;
    return score;
  };
}
