# Makes vectors.json, which the tests of this package compare with. It shares no
# code with the package: quantiles, deviations, rank tests, binomial quantiles and
# the Holm correction are R's own, the dip is that of the package diptest.
#
# Run as: Rscript vectors.R > vectors.json
# Last run with R 4.2.2 and diptest 0.76-0 (Debian: r-base-core, r-cran-diptest).

suppressMessages(library(diptest))
set.seed(20240607)

# JSON ------------------------------------------------------------------------

number <- function(x) paste0("[", paste(sprintf("%.17g", x), collapse = ","), "]")
one <- function(x) sprintf("%.17g", x)
object <- function(...) {
  fields <- list(...)
  paste0("{", paste(sprintf("\"%s\":%s", names(fields), unlist(fields)), collapse = ","), "}")
}
array <- function(items) paste0("[\n", paste(unlist(items), collapse = ",\n"), "\n]")
text <- function(s) paste0("\"", s, "\"")

# Samples ---------------------------------------------------------------------

quantised <- function(n, mean, sd, tick) pmax(tick, round(rnorm(n, mean, sd) / tick) * tick)

samples <- list(
  one = c(1234.5),
  two = c(10, 20),
  five = c(3, 1, 4, 1, 5),
  six = c(31, 41, 59, 26, 53, 58),
  normal_20 = round(rnorm(20, 5000, 40), 3),
  normal_100 = round(rnorm(100, 5000, 40), 3),
  lognormal_333 = round(exp(rnorm(333, 8, 0.3)), 3),
  quantised_60 = quantised(60, 1040, 20, 32),
  quantised_250 = quantised(250, 4100, 60, 32),
  two_kinds_200 = round(c(rnorm(120, 1000, 10), rnorm(80, 1300, 10))[sample(200)], 3),
  rising_80 = round(2000 + 1:80 * 1.5 + rnorm(80, 0, 30), 3),
  falling_45 = round(3000 - 1:45 * 4 + rnorm(45, 0, 90), 3),
  signed_30 = round(rnorm(30, 0, 50), 2),
  outliers_50 = c(round(rnorm(46, 800, 5), 2), 900, 1400, 20, 5000),
  equal_25 = rep(64, 25)
)

ps <- c(0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
normal_mad <- 1 / qnorm(0.75)

# The ranks of the interval's ends, their probability, or 0 if there is none.
ranks <- function(n, p, level) {
  a <- (1 - level) / 2
  l <- qbinom(a, n, p)
  u <- qbinom(1 - a, n, p) + 1
  if (l < 1 || u > n) return(c(0, 0, 0))
  c(l, u, pbinom(u - 1, n, p) - pbinom(l - 1, n, p))
}

detectable <- function(x, level, power) {
  r <- ranks(length(x), 0.5, level)
  if (r[1] == 0) return(0)
  s <- sort(x)
  se <- (s[r[2]] - s[r[1]]) / 2 / qnorm((1 + r[3]) / 2)
  (qnorm((1 + level) / 2) + qnorm(power)) * sqrt(2) * se / abs(median(x))
}

describe <- function(name) {
  x <- samples[[name]]
  n <- length(x)
  varied <- n >= 3 && max(x) > min(x)
  q <- quantile(x, c(0.25, 0.75), type = 7, names = FALSE)
  width <- q[2] - q[1]
  kendall <- c(0, 1)
  if (n >= 10 && varied) {
    t <- suppressWarnings(cor.test(x, seq_len(n), method = "kendall", exact = FALSE, continuity = TRUE))
    kendall <- c(unname(t$estimate), t$p.value)
  }
  object(
    name = text(name), samples = number(x),
    quantiles = number(quantile(x, ps, type = 7, names = FALSE)),
    mean = one(mean(x)), stddev = one(if (n > 1) sd(x) else 0),
    mad = one(mad(x, constant = 1)), mad_scaled = one(mad(x, constant = normal_mad)),
    iqr = one(IQR(x, type = 7)),
    # low severe, low mild, high mild, high severe
    outliers = number(c(
      sum(x < q[1] - 3 * width), sum(x < q[1] - 1.5 * width & x >= q[1] - 3 * width),
      sum(x > q[2] + 1.5 * width & x <= q[2] + 3 * width), sum(x > q[2] + 3 * width))),
    lag1 = one(if (varied) acf(x, lag.max = 1, plot = FALSE)$acf[2] else 0),
    kendall = number(kendall),
    dip = one(dip(x)),
    detectable = one(detectable(x, 0.95, 0.8)))
}

# Ranks -----------------------------------------------------------------------

rank_rows <- list()
for (n in c(1, 5, 6, 7, 8, 10, 19, 20, 30, 40, 50, 99, 100, 200, 500, 1000, 4321, 20000, 1000000))
  for (p in c(0.01, 0.25, 0.5, 0.95, 0.99))
    for (level in c(0.5, 0.9, 0.95, 0.99, 0.999))
      rank_rows[[length(rank_rows) + 1]] <- number(c(n, p, level, ranks(n, p, level)))

# P-values --------------------------------------------------------------------

families <- list(
  c(0.01, 0.04, 0.03, 0.005), c(0.5, 0.5, 0.001), c(1, 0, 0.2), c(0.049),
  round(runif(12)^2, 6), c(0.02, 0.02, 0.02))

# What follows was made after two draws for vectors that are not here any more.
invisible(c(rnorm(41), rnorm(41)))

# Rules: NVBench's formulas, each evaluated afresh at every n ------------------

stdrel_stop <- function(x, max_noise, min_time, min_samples = 10) {
  noises <- c()
  for (n in seq_along(x)) {
    if (n >= 5) noises <- c(noises, sd(x[1:n]) / mean(x[1:n]))
    if (n < min_samples || sum(x[1:n]) <= min_time) next
    now <- noises[length(noises)]
    if (now < max_noise) return(n)
    w <- tail(noises, 512)
    if (length(w) > 64 && n %% 16 == 0 && sqrt(sum((w - now)^2) / (length(w) - 1)) / now < 0.05) return(n)
  }
  0
}

entropy_stop <- function(x, min_samples = 10) {
  h <- c()
  for (n in seq_along(x)) {
    share <- table(x[1:n]) / n
    h <- c(h, -sum(share * log2(share)))
    if (n < min_samples || n %% 2 != 0) next
    y <- tail(h, 299)
    at <- seq_along(y) - 1
    slope <- cov(at, y) / var(at)
    all <- sum((y - mean(y))^2)
    r2 <- if (all < .Machine$double.eps) 1 else 1 - sum((y - mean(y) - slope * (at - mean(at)))^2) / all
    if (atan(slope) * 180 / pi <= 0.048 && r2 >= 0.36) return(n)
  }
  0
}

streams <- list(
  quiet = quantised(400, 32000, 100, 32),
  noisy = quantised(1200, 32000, 2000, 32),
  coarse = quantised(1200, 1024, 20, 32),
  settling = quantised(900, 32000 * (1 + exp(-(1:900) / 30)), 300, 32),
  wide = quantised(900, 4096, 400, 32),
  equal = rep(64, 40))

rule_rows <- lapply(names(streams), function(name) {
  x <- streams[[name]]
  object(name = text(name), samples = number(x),
         stdrel = one(stdrel_stop(x, 0.005, 500000)), entropy = one(entropy_stop(x)))
})

cat(object(
  ps = number(ps),
  samples = array(lapply(names(samples), describe)),
  ranks = array(rank_rows),
  holm = array(lapply(families, function(p) object(p = number(p), adjusted = number(p.adjust(p, "holm"))))),
  rules = array(rule_rows)), "\n", sep = "")
