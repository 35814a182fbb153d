// Sizes in words.

/** Three digits, as Python's `.3g` has them: what lies exactly between two goes to the even one. */
function threeDigits(size: number): number {
  const downwards = /^\d\d[02468]50*$/u.test(size.toPrecision(40).replace(/\D/gu, ""));
  return Number((downwards ? size * (1 - 1e-9) : size).toPrecision(3));
}

/** An amount of memory, digit by digit as `byte_count` of Python writes it: the same number stands beside it in sentences. */
export function bytes(count: number): string {
  let size = count;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (Math.abs(size) < 999.5) return `${threeDigits(size)} ${unit}`;
    size /= 1000;
  }
  return `${Math.round(size * 1000).toLocaleString("en")} TB`;
}

/** Numbers in six digits, where those that differ still do. */
export function shortNumbers(texts: readonly string[]): string[] {
  const cut = texts.map((text) => (/^-?\d+\.\d{7,}(e-?\d+)?$/u.test(text) ? String(Number(Number(text).toPrecision(6))) : text));
  return texts.map((text, k) => (cut.some((other, at) => other === cut[k] && texts[at] !== text) ? text : cut[k]));
}
