// How the search of the site sorts: a page or section whose name is asked for goes first, then those
// that show how to do it. What has changed and how to come from elsewhere goes last.

// The pages that words mean which no title has.
const MEANT = { cron: "recurring work" };

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([docname, title, anchor, descr, score]) => {
    const asked = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    const names = title.toLowerCase().split(" > ");
    const name = names[names.length - 1];
    if (name === (MEANT[asked] || asked)) score += 30;
    else if (name.split(/\W+/).includes(asked)) score += 15;
    if (/^howto\/move-|^project\//.test(docname)) return score - 12;
    if (docname.startsWith("howto/")) return score + 2;
    return docname.startsWith("reference/") ? score + 1 : score;
  },
};
