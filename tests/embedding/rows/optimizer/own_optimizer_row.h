/* own_optimizer_row.h: the row of the example in embedding/rows/optimizer/README.md, for every
 * source of the rooms that the test is built from (tests/CMakeLists.txt). */
#define OPTIMIZER_KINDS_OWN(X)                                                                     \
    X(6, MOMENTUM, momentum, ANY, .per_element = 1, .lr = 0.05, .beta1 = 0.9)
