// What a question to the server may end in instead of an answer.

/** The server answered that it cannot, and what to do about it. */
export class Refused extends Error {
  constructor(message, fix) {
    super(message);
    this.fix = fix ?? "";
  }
}

/** The server could not be reached. */
export class Lost extends Error {}
