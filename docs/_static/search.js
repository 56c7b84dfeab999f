/* The site's search. Sphinx drops words of digits from a query: codes of errors stay here (the
   index has them: conf.py). A page named by the query is first, decisions are last; pages of errors
   come behind others unless the query is a code. */
if (typeof Search !== "undefined") {
  const parse = Search._parseQuery;
  let asked = "";
  Search._parseQuery = (query) => {
    const parsed = parse(query);
    asked = query.trim().toLowerCase();
    for (const term of splitQuery(asked)) {
      if (/^\d{4}$/.test(term)) {
        parsed[1].add(term);
        parsed[3].add(term);
      }
    }
    return parsed;
  };
  const words = (text) => splitQuery(text.toLowerCase());
  Scorer.score = ([page, title, anchor, description, score]) => {
    if (page.startsWith("decisions/")) return score - 1000;
    if (page.startsWith("reference/") && words(asked).every((word) => words(title).includes(word))) {
      return score + (words(title)[0] === words(asked)[0] ? 60 : 30);
    }
    if (page.startsWith("reference/errors/") && !/\d{4}|^err/.test(asked)) return score - 10;
    return score;
  };
}
