/* own_format_row.h: the row of the example of worker/data/README.md, for every source of the rooms
 * that the test is made of (tests/CMakeLists.txt). */
#define DATA_FORMATS_OWN(X) X(WORDS, words, NUMBER_NONE)
