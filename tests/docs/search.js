// Runs the search of a built site without a browser: node search.js SITE QUESTION...
const fs = require("fs");
const vm = require("vm");

const [site, ...questions] = process.argv.slice(2);
const script = (name) => fs.readFileSync(`${site}/${name}`, "utf-8");
const context = vm.createContext({
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  _ready: () => {},
  document: { getElementById: () => null },
  location: { protocol: "http:" },
  questions,
});
context.window = context;
const asked = `Object.fromEntries(questions.map((question) => {
  const found = Search._performSearch(...Search._parseQuery(question)).reverse();
  return [question, found.map(([page, , anchor]) => page + anchor)];
}))`;
const scripts = ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"];
const answers = vm.runInContext([...scripts.map(script), asked].join("\n"), context);
console.log(JSON.stringify(answers));
