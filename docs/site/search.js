// How the search of the site finds and sorts. A question is compared, word by word, with all headings
// and with the words that docs/site/words.toml and the glossary give to them; rare words count more.
// Then come pages that only have all words in their text.
// The build writes WORDS and EXCERPTS above: texts by page and heading.

// Headings below this share of common words are left out. Declared words go before equal headings.
const LIKE = 0.4;
const DECLARED = 1.05;

const stemmer = new Stemmer();
const stems = (text) =>
  new Set(
    splitQuery(text.toLowerCase())
      .filter((word) => !stopwords.has(word))
      .map((word) => stemmer.stemWord(word)),
  );

// How to do it comes first; what has changed and how to come from elsewhere comes last.
const bonus = (page) => {
  if (/^howto\/move-|^project\//.test(page)) return -12;
  if (page.startsWith("howto/")) return 2;
  return page.startsWith("reference/") ? 1 : 0;
};

const headings = () => {
  const { alltitles, docnames } = Search._index;
  const named = {};
  for (const [title, places] of Object.entries(alltitles))
    for (const [file, id] of places) {
      const heading = { file, id: id ?? "", title, names: [title] };
      named[`${docnames[file]}#${heading.id}`] = heading;
    }
  for (const [place, words] of Object.entries(WORDS)) named[place]?.names.push(...words);
  return Object.values(named);
};

Search._performSearch = (query, asked, excluded) => {
  const { docnames, filenames, terms, titles } = Search._index;
  const weigh = (words) => {
    const pages = (word) => [terms[word] ?? []].flat().length || 1;
    return [...words].reduce((sum, word) => sum + Math.log(1 + docnames.length / pages(word)), 0);
  };
  const likeness = (name) => {
    const words = stems(name);
    const common = [...words].filter((word) => asked.has(word));
    return common.length && (2 * weigh(common)) / (weigh(words) + weigh(asked));
  };
  const texts = Search.performTermsSearch(asked, excluded);
  const has = new Set(texts.map(([page]) => page));
  const found = headings()
    .map((heading) => {
      const [title, ...words] = heading.names.map(likeness);
      return { ...heading, like: Math.max(title, DECLARED * Math.max(0, ...words)) };
    })
    .filter(({ like }) => like > LIKE)
    .map(({ file, id, title, like }) => {
      const [page, name] = [docnames[file], id ? `${titles[file]} > ${title}` : title];
      const score = 50 * like + (has.has(page) ? 5 : 0) + bonus(page);
      return [page, name, id && `#${id}`, null, score, filenames[file], "title"];
    });
  const shown = new Set(found.map(([page]) => page));
  for (const text of texts)
    if (!shown.has(text[0])) found.push(text.with(4, text[4] + bonus(text[0])));
  return found.sort(_orderResultsByScoreThenName);
};

// A page that was opened from a folder may not read others: their beginnings are above.
if (location.protocol === "file:")
  window.fetch = async (address) => {
    const start = document.documentElement.dataset.content_root.length;
    const page = address.slice(start).replace(/\.html$/, "");
    const sections = Object.entries(EXCERPTS[page] ?? {});
    const body = sections.map(([id, text]) => `<section id="${id}">${_escapeHTML(text)}</section>`);
    return { text: async () => `<div role="main">${body.join(" ")}</div>` };
  };
