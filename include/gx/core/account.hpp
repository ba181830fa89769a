// Account: what a world says of itself in a report: its clock, its prices, what it corrects.
#pragma once

#include <cstdint>  // uint64_t
#include <string>   // names
#include <vector>   // notes

#include <gx/core/units.hpp>  // DollarsPerHour

namespace gx {

/// A world may answer one from `account()`; a plain world runs on the wall clock and is free.
struct Account {
    std::string world{};
    std::string clock = "wall";           ///< "wall" or "virtual"
    std::string timed_as{};               ///< what the clock is charged for, if not what is trained
    std::vector<std::string> notes{};     ///< profile and corrections in force, a sentence each
    int timed_batch = 0;                  ///< images of a rank and step on the clock; 0: as trained
    DollarsPerHour price{};               ///< of all machines together
    std::uint64_t event_hash = 0;         ///< of the last run; 0 where events are not hashed
};

}  // namespace gx
