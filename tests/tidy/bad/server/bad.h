#ifndef WRONG_GUARD
#define WRONG_GUARD
#endif
