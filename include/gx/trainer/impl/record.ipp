// Vectors of rows, once.
#pragma once

#include <gx/trainer/record.hpp>  // the types

#if defined(GX_COMPILED)
template class std::vector<gx::StepRow>;
template class std::vector<gx::EpochRow>;
#endif
