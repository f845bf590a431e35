/* unformatted.c: not as clang-format leaves it, and with a comment that goes on and on behind column 100 */
int unformatted(int x) {
  return x ; }
