// Loss scales, with their options checked.
#pragma once

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/trainer/loss_scale.hpp>  // the declarations

namespace gx {

GX_DECL StaticLossScale::StaticLossScale(Options o) : factor_(o.factor) {
    GX_EXPECT(check(o).empty(), check(o).first());
}

GX_DECL DynamicLossScale::DynamicLossScale(Options o) : options_(o), state_{o.initial, 0} {
    GX_EXPECT(check(o).empty(), check(o).first());
}

}  // namespace gx
