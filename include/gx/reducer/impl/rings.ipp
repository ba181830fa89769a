// The proof of ring schedules, once.
#pragma once

#include <gx/reducer/rings.hpp>  // the declarations

#if defined(GX_COMPILED)
template gx::collective::Proof gx::collective::prove_all_reduce(const gx::collective::Ring&);
#endif
