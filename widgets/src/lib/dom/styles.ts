// The style sheet goes into a document once, however many explorers it shows.

declare const IRSCOPE_STYLES: string;
/** Abbreviations in the sheet, and what each stands for. */
declare const IRSCOPE_SHORT: [string, string][];
declare const IRSCOPE_DIGEST: string;

export function stylesOnce(document: Document): void {
  const holder = document.documentElement;
  if (holder.dataset.irscopeStyles === IRSCOPE_DIGEST) return;
  holder.dataset.irscopeStyles = IRSCOPE_DIGEST;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(IRSCOPE_SHORT.reduce((css, [sign, piece]) => css.split(sign).join(piece), IRSCOPE_STYLES));
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
