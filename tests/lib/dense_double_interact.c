/* dense_double_interact.c: layers of dense/ops_interact.h in double. */
#include "tests/lib/dense_double.h"

const struct double_layer double_layers_interact[] = {{NULL, NULL}};
