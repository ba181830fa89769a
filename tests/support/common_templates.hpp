// GX_COMMON_TEMPLATES(F): templates of the test libraries that many tests use, instantiated once.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <string_view>
#include <vector>

/// The instantiations that most tests repeat, each as F(declaration): declared here, in the
/// precompiled headers, and defined in cmake/test_headers.cpp. Another is worth its line if a dozen
/// tests need it; a test is complete without.
/// Cost: without them a test of one property takes 1 s longer to compile. rapidcheck refers to
/// real<long double> where no property does: each test would compile it.
// clang-format off
#define GX_COMMON_TEMPLATES(F)                                                                  \
    F(void rc::detail::checkGTest<void (*)()>(void (*&&)()))                                    \
    F(void rc::detail::checkGTest<void (*)(unsigned long)>(void (*&&)(unsigned long)))          \
    GX_COMMON_NUMBER(F, int)                                                                    \
    GX_COMMON_NUMBER(F, long)                                                                   \
    GX_COMMON_NUMBER(F, unsigned long)                                                          \
    F(rc::Gen<bool> rc::gen::arbitrary<bool>())                                                 \
    F(rc::Shrinkable<long double> rc::gen::detail::real<long double>(const rc::Random&, int))   \
    F(bool rc::Gen<bool>::operator*() const)                                                    \
    F(std::string testing::PrintToString<bool>(const bool&))                                    \
    F(std::string testing::PrintToString<unsigned>(const unsigned&))                            \
    F(std::string testing::PrintToString<float>(const float&))                                  \
    F(std::string testing::PrintToString<double>(const double&))                                \
    F(std::string testing::PrintToString<const void*>(const void* const&))                      \
    F(std::string testing::PrintToString<const char*>(const char* const&))                      \
    F(std::string testing::PrintToString<std::string>(const std::string&))                      \
    F(std::string testing::PrintToString<std::string_view>(const std::string_view&))            \
    F(std::string testing::PrintToString<std::vector<int>>(const std::vector<int>&))            \
    F(std::string testing::PrintToString<std::vector<float>>(const std::vector<float>&))        \
    F(std::string testing::PrintToString<std::vector<std::vector<float>>>(                      \
        const std::vector<std::vector<float>>&))                                                \
    F(std::string testing::PrintToString<std::vector<double>>(const std::vector<double>&))      \
    F(std::string testing::PrintToString<std::vector<std::string>>(                             \
        const std::vector<std::string>&))                                                       \
    GX_COMMON_COMPARISON(F, int, int)                                                           \
    GX_COMMON_COMPARISON(F, long, int)                                                          \
    GX_COMMON_COMPARISON(F, long, long)                                                         \
    GX_COMMON_COMPARISON(F, unsigned long, unsigned)                                            \
    GX_COMMON_COMPARISON(F, unsigned long, unsigned long)                                       \
    GX_COMMON_COMPARISON(F, float, float)                                                       \
    GX_COMMON_COMPARISON(F, double, int)                                                        \
    GX_COMMON_COMPARISON(F, double, double)                                                     \
    F(void rc::detail::doAssert(const rc::detail::expr::Value<bool>&, bool,                     \
                                rc::detail::CaseResult::Type, const std::string&, int,          \
                                const std::string&))
#define GX_COMMON_NUMBER(F, T)                                                                  \
    F(rc::Gen<T> rc::gen::inRange<T>(T, T))                                                     \
    F(T rc::Gen<T>::operator*() const)                                                          \
    F(std::string testing::PrintToString<T>(const T&))
#define GX_COMMON_COMPARISON(F, A, B)                                                           \
    F(testing::AssertionResult testing::internal::CmpHelperEQ<A, B>(                            \
        const char*, const char*, const A&, const B&))                                          \
    F(testing::AssertionResult testing::internal::CmpHelperOpFailure<A, B>(                     \
        const char*, const char*, const A&, const B&, const char*))
// clang-format on

#define GX_DECLARED_TEMPLATE(...) extern template __VA_ARGS__;
GX_COMMON_TEMPLATES(GX_DECLARED_TEMPLATE)
#undef GX_DECLARED_TEMPLATE
