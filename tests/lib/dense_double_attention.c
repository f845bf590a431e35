/* dense_double_attention.c: layers of dense/ops_attention.h in double. */
#include "tests/lib/dense_double.h"

const struct double_layer double_layers_attention[] = {{NULL, NULL}};
