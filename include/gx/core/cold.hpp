// GX_COLD: code that runs once and is not worth the compiler's time.
#pragma once

/// Marks a function of the set-up or the report of a run: sentences, checks, plans, files. It is
/// compiled for size, with little inlining, so that programs compile sooner; what it does is the
/// same. Put it on the first declaration, before all else; never on a loop over numbers.
#if defined(__GNUC__)
#define GX_COLD [[gnu::cold]]
#else
#define GX_COLD
#endif
