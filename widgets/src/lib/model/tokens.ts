// One line of IR or of kernel source as coloured pieces. Concatenated, the pieces are the line.

export type TokenKind = "value" | "op" | "type" | "keyword" | "number" | "string" | "comment" | "plain";

export interface Token {
  kind: TokenKind;
  text: string;
}

const IR = new RegExp(
  [
    String.raw`(?<comment>#.*$|\/\/.*$)`,
    String.raw`(?<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')`,
    String.raw`(?<value>%[\w.$-]*\w)`,
    String.raw`(?<op>\b[A-Za-z_]\w*::[\w.]+)`,
    String.raw`(?<keyword>\b(?:graph|return|block\d+|with|for|if|else|int|float|void|const|double|long|bool|define|call|fmul|fadd|load|store|br|ret|phi)\b)`,
    String.raw`(?<type>\b(?:Tensor|Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|Device|List|Dict|Tuple|Optional|NoneType|Any|str|complex|number)\b)`,
    String.raw`(?<number>(?<![\w.])-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?f?\b)`,
  ].join("|"),
  "gu",
);

/** Python divides by `//`. */
const PYTHON = new RegExp(IR.source.replace(String.raw`|\/\/.*$`, ""), "gu");

/** Limit on the coloured letters of a line. Matching a string of some millions of letters overflows the stack of a browser. */
const COLOURED = 50_000;

export function tokens(line: string, isPython = false): Token[] {
  if (line.length > COLOURED) return [...tokens(line.slice(0, COLOURED), isPython), { kind: "plain", text: line.slice(COLOURED) }];
  const pieces: Token[] = [];
  let from = 0;
  for (const match of line.matchAll(isPython ? PYTHON : IR)) {
    if (match.index > from) pieces.push({ kind: "plain", text: line.slice(from, match.index) });
    const groups = match.groups as Record<TokenKind, string | undefined>;
    const kind = (Object.keys(groups) as TokenKind[]).find((name) => groups[name] !== undefined) ?? "plain";
    pieces.push({ kind, text: match[0] });
    from = match.index + match[0].length;
  }
  if (from < line.length) pieces.push({ kind: "plain", text: line.slice(from) });
  return pieces;
}

const NAME = /%([\w.$-]*\w)/gu;

/** Names that a line of IR defines: those before its first ` = `. */
export function definedNames(line: string): string[] {
  const end = line.search(/\s=\s/u);
  return end < 0 ? [] : namesIn(line.slice(0, end));
}

/** Every value name in a piece of IR, without `%`. */
export function namesIn(text: string): string[] {
  return [...text.matchAll(NAME)].map((match) => match[1]);
}

/** A line of IR without the types of the values that it declares: `%a : Tensor = …` becomes `%a = …`. */
export function withoutTypes(line: string): string {
  let kept = "";
  let from = 0;
  for (const match of line.matchAll(/%[\w.$-]*\w : /gu)) {
    if (match.index < from) continue;
    const colon = match.index + match[0].length - 3;
    kept += line.slice(from, colon);
    from = typeEnd(line, colon + 3);
  }
  return kept + line.slice(from);
}

/** Where a type that starts here ends: at the first comma, equals sign or closing bracket outside its own brackets. */
function typeEnd(line: string, start: number): number {
  let depth = 0;
  for (let k = start; k < line.length; k++) {
    const c = line[k];
    if (c === "(" || c === "[") depth++;
    else if (c === ")" || c === "]") {
      if (depth === 0) return k;
      depth--;
    } else if (depth === 0 && (c === "," || line.startsWith(" = ", k))) return k;
  }
  return line.length;
}
