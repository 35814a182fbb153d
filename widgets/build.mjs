// Bundles src/ into the Python package: irscope.js, one ES module with its style sheet inside.
// The first line of the bundle names the sources that it was made from; hatch_build.py reads it.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "irscope", "widgets", "static");

/** The SHA-256 of every source with its name, in the order of the names: what `sources_digest` of hatch_build.py computes. */
function sourcesDigest() {
  const names = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(here.length + 1).replaceAll("\\", "/"));
  const hash = createHash("sha256");
  for (const name of [...names, "build.mjs", "package-lock.json", "package.json"].sort()) {
    hash.update(name).update("\0").update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex").slice(0, 16);
}

const digest = sourcesDigest();
const sheets = readdirSync(join(here, "src"), { recursive: true }).filter((name) => name.endsWith(".css")).sort((a, b) => Number(b === "style.css") - Number(a === "style.css") || (a < b ? -1 : 1));
const { code: css } = await transform(sheets.map((name) => readFileSync(join(here, "src", name), "utf8")).join("\n"), { loader: "css", minify: true });

// After each click the browser would look at every element of the page for it: a click on a line took one and a half times as long.
const everywhere = css.match(/[^{}]*:has\([^{},]*\)[ >+~]*\*[^{]*/);
if (everywhere) throw new Error(`${everywhere[0]}: give the element a class instead of asking what it has`);

/** Pieces that a style sheet is full of, each as a sign that it has nowhere: a fifth of the sheet in the bundle. */
const short = Object.entries({
  "`": "var(--irs-", "^": ".irs-", $: "color-mix(in srgb,", "|": "white-space:nowrap", "?": "overflow:hidden", "&": "text-overflow:ellipsis", _: "border-radius:",
});
const taken = short.find(([sign]) => css.includes(sign));
if (taken) throw new Error(`the style sheet contains ${taken[0]}, which stands for ${taken[1]} in the bundle`);
const sheet = short.reduce((text, [sign, piece]) => text.split(piece).join(sign), css);

const { outputFiles } = await build({
  entryPoints: [join(here, "src", "index.ts")],
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  write: false,
  legalComments: "none",
  charset: "utf8",
  define: { IRSCOPE_STYLES: JSON.stringify(sheet), IRSCOPE_SHORT: JSON.stringify(short), IRSCOPE_DIGEST: JSON.stringify(digest) },
});
const script = outputFiles[0].text;
if (script.includes("</script")) throw new Error("the bundle contains '</script' and could not stand in a page");
mkdirSync(target, { recursive: true });
writeFileSync(join(target, "irscope.js"), `/* irscope front end, sources ${digest} */\n${script}`);
console.log(`irscope.js ${(script.length / 1024).toFixed(0)} kB, ${(css.length / 1024).toFixed(0)} kB of them styles`);
