// Runs the module named by the first argument, and ends when whoever started it closes our standard input or dies.
process.stdin.on("end", () => process.exit(0)).resume();
require(process.argv.splice(2, 1)[0]);
