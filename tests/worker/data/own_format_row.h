/* own_format_row.h: the row of the example in worker/data/README.md, for every source of the rooms
 * that the test is built from (tests/CMakeLists.txt). */
#define DATA_FORMATS_OWN(X) X(WORDS, words, NUMBER_NONE)
